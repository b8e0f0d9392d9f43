"""The public surface as text: one line for each name a user can reach.

`PYTHONPATH=src python -m tests.contracts.surface > tests/contracts/public_names.txt` renews it.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from typing import Any

from locknut.faces.misuse import OtherFace
from locknut.runtimes.cpython import is_coroutine_function

MODULES = ("locknut", "locknut.aio", "locknut.metrics", "locknut.waits", "locknut.redlock",
           "locknut.capacity",
           "locknut.guards", "locknut.guards.etcd",
           "locknut.guards.redis", "locknut.guards.redis.aio", "locknut.guards.sql",
           "locknut.guards.sql.aio", "locknut.contrib.alembic", "locknut.contrib.apscheduler",
           "locknut.contrib.celery", "locknut.contrib.celery_beat", "locknut.contrib.flask",
           "locknut.contrib.sqlalchemy", "locknut.contrib.sqlalchemy.aio",
           "locknut.contrib.starlette", "locknut.compat.redis_py",
           "locknut.compat.redis_py.aio")  # fmt: skip
SPECIAL = {
    "__aenter__", "__aexit__", "__bool__", "__enter__", "__exit__", "__init__", "__iter__",
}  # fmt: skip


def surface() -> list[str]:
    """Every line, in order."""
    return [line for module in MODULES for line in _of_module(module)]


def _of_module(name: str) -> Iterator[str]:
    module = importlib.import_module(name)
    for public in sorted(module.__all__):
        thing = getattr(module, public)
        if inspect.isclass(thing):
            yield f"{name}.{public}({', '.join(base.__name__ for base in thing.__bases__)})"
            yield from (f"{name}.{public}.{line}" for line in _of_class(thing))
        elif callable(thing):
            yield f"{name}.{told(public, thing)}"
        else:
            yield f"{name}.{public}"


def _of_class(kind: type) -> Iterator[str]:
    for name, member in members(kind).items():
        if isinstance(member, property):
            yield name
        elif callable(member):
            # How a user makes one is `connect` and its methods; errors are made like any other.
            if name != "__init__":
                yield told(name, member)
        else:
            yield name


def members(kind: type) -> dict[str, Any]:
    """What a class and its bases of ours define that users reach, by name."""
    found: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        if base.__module__.split(".")[0] == "locknut":
            found |= {name: vars(base)[name] for name in vars(base)}
    return {
        name: found[name]
        for name in sorted(found)
        if not isinstance(found[name], OtherFace)
        and (not name.startswith("_") or (name in SPECIAL and name != "__init__"))
    }


def told(name: str, function: Any) -> str:
    """`async acquire(self, blocking=True)`: the colour and the parameters, without types."""
    colour = "async " if is_coroutine_function(function) else ""
    return f"{colour}{name}({', '.join(parameters(function))})"


def parameters(function: Any) -> list[str]:
    """Names, kinds and defaults; annotations differ between the faces."""
    try:
        signature = inspect.signature(function)
    except ValueError:
        return ["..."]
    plain = [one.replace(annotation=one.empty) for one in signature.parameters.values()]
    text = str(signature.replace(parameters=plain, return_annotation=signature.empty))
    return text[1:-1].split(", ") if text != "()" else []


if __name__ == "__main__":
    print("\n".join(surface()))
