"""Tools for tests: fake locks, a check of the order in which locks are taken, a conformance suite
for engines, and a proxy that injects faults.

Each tool is imported when it is first used, because pytest imports this package in every run.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from locknut.testing.conformance import Conformance
    from locknut.testing.fake_clock import Clock
    from locknut.testing.fake_engines import SomebodyElse
    from locknut.testing.fakes import FakeLocks, fake_locks
    from locknut.testing.order_of_locks import LockOrderError, lock_order
    from locknut.testing.proxy import FaultProxy

_HOMES = {
    "Clock": "fake_clock",
    "Conformance": "conformance",
    "FakeLocks": "fakes",
    "FaultProxy": "proxy",
    "LockOrderError": "order_of_locks",
    "SomebodyElse": "fake_engines",
    "fake_locks": "fakes",
    "lock_order": "order_of_locks",
}

__all__ = [
    "Clock",
    "Conformance",
    "FakeLocks",
    "FaultProxy",
    "LockOrderError",
    "SomebodyElse",
    "fake_locks",
    "lock_order",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
