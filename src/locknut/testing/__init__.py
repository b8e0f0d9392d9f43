"""Tools for tests: fake locks, a conformance suite for engines, and a proxy that injects faults.

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
    from locknut.testing.proxy import FaultProxy

_HOMES = {
    "Clock": "fake_clock",
    "Conformance": "conformance",
    "FakeLocks": "fakes",
    "FaultProxy": "proxy",
    "SomebodyElse": "fake_engines",
    "fake_locks": "fakes",
}

__all__ = ["Clock", "Conformance", "FakeLocks", "FaultProxy", "SomebodyElse", "fake_locks"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
