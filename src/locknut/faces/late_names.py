"""Public names that few programs use, for annotations mostly: imported when they are asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

LATE: Final = {
    "Barrier": "barriers",
    "Election": "leadership",
    "Latch": "barriers",
    "Once": "scheduled_run",
    "Term": "leadership",
}
"""Where each of them is in the package of a face."""


def late_names(package: str, face: str) -> Callable[[str], Any]:
    """Make the `__getattr__` of a module that has them."""

    def find(name: str) -> Any:
        if name not in LATE:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(f"{face}.{LATE[name]}"), name)

    return find
