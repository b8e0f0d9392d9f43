"""A module is never named like a public name beside it, and the order of imports does not matter.

`locknut.lock` is a function. A module `locknut/lock.py` would take its place as soon as somebody
imports it, or be hidden by it: which of the two a program sees would depend on its first import.
"""

from __future__ import annotations

import os
import pkgutil
import subprocess
import sys
from types import ModuleType

import pytest

import locknut
import locknut.guards
import locknut.guards.redis
import locknut.guards.sql
import locknut.metrics
from locknut import aio
from tests.contracts.sources import PACKAGE, sources

EACH_FIRST = """
import importlib, sys
for name in sys.argv[1:]:
    for old in [each for each in sys.modules if each.partition(".")[0] == "locknut"]:
        del sys.modules[old]
    importlib.import_module(name)
    import locknut, locknut.aio
    for face in (locknut, locknut.aio):
        wrong = [each for each in face.__all__ if not callable(getattr(face, each))]
        assert not wrong, f"{name} was imported first: {face.__name__} has modules for {wrong}"
print("done")
"""
ONE_AFTER_THE_OTHER = """
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
import locknut
assert locknut.connect("memory:").lock("x").acquire().fence
print("done")
"""


@pytest.mark.parametrize(
    "package",
    [locknut, aio, locknut.metrics, locknut.guards, locknut.guards.redis, locknut.guards.sql],
    ids=lambda package: str(package.__name__),
)
def test_no_module_has_the_name_of_something_public(package: ModuleType) -> None:
    modules = {each.name for each in pkgutil.iter_modules(package.__path__)}
    assert not modules & {*package.__all__}
    assert not [name for name in package.__all__ if isinstance(getattr(package, name), ModuleType)]


def test_every_module_of_the_faces_can_be_imported_first() -> None:
    top = [each.module for each in sources() if each.path.parent == PACKAGE]
    names = [*top, *(each.module for each in sources("faces", "blocking", "aio"))]
    run(EACH_FIRST, [name for name in names if not name.endswith("__main__")])


@pytest.mark.parametrize("step", [1, -1], ids=["forwards", "backwards"])
def test_the_core_can_be_imported_in_any_order(step: int) -> None:
    names = [each.module for each in sources("core", "runtimes", "cli")]
    run(ONE_AFTER_THE_OTHER, [name for name in names if not name.endswith("__main__")][::step])


def run(program: str, modules: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", program, *modules],
        env={**os.environ, "PYTHONPATH": str(PACKAGE.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "done\n", done.stderr
