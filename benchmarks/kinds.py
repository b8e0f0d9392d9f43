"""What a workload compares: kinds of lock, listed per engine, all driven in the same way.

An engine brings one file, `benchmarks/<engine>_locks.py`, with `KINDS`: the bare limit, Locknut in
both colours, and the peers with the settings they come with. A kind that is not installed, or that
fails while it is measured, is left out, and the table says so.
"""

from __future__ import annotations

import sys
from asyncio import AbstractEventLoop, new_event_loop
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, distributions, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from benchmarks import measuring

T = TypeVar("T")
NAME = "bench"


class Pair(NamedTuple):
    """What takes a lock and what gives it back: functions, or coroutine functions."""

    acquire: Callable[[], Any]
    release: Callable[[], Any]


Opened = Callable[[str], Pair]
"""A client: from the name of a lock to the lock, for one caller."""


class Kind(NamedTuple):
    """One kind of lock, and how it is opened: by the process that uses it, in its event loop."""

    open: Callable[[str], Opened]
    """From the place, which is a folder or the URL of a server, to a client."""
    asyncio: bool = False
    uvloop: bool = False
    module: str = "locknut"
    """What has to be importable."""
    package: str = ""
    """What it is called where it is installed from, if that is not the module's name."""
    interval: float = 0.0
    """How often it looks again while it waits; 0 for those that are woken."""
    sends: tuple[str, ...] = ()
    """The commands its clients send, apart from those its scripts call in the server."""
    hold: Callable[[str], Opened] | None = None
    """The same with an expiry of `holding.TTL`, which it renews by itself, if it can."""

    @property
    def needs(self) -> list[str]:
        """Modules that are not here."""
        wanted = [self.module, *(["uvloop"] if self.uvloop else [])]
        return [each for each in wanted if not _found(each)]

    @property
    def source(self) -> str:
        return self.package or self.module

    def loop(self) -> AbstractEventLoop:
        if not self.uvloop:
            return new_event_loop()
        made: AbstractEventLoop = import_module("uvloop").new_event_loop()
        return made


def _found(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # not even what it is in
        return False


def kinds_of(engine: str) -> Mapping[str, Kind]:
    """All that this engine's file lists."""
    found: Mapping[str, Kind] = import_module(f"benchmarks.{engine}_locks").KINDS
    return found


def ours(name: str) -> bool:
    return name.startswith("locknut")


def bare(name: str) -> bool:
    return name.startswith("bare")


class Field:
    """Who takes part in one workload; `notes` says who does not, and why."""

    def __init__(self, kinds: Mapping[str, Kind], names: Sequence[str]) -> None:
        self.kinds = {name: kinds[name] for name in names if not kinds[name].needs}
        lacking = {
            f"{need} is not installed: {name} is left out"
            for name in names
            for need in kinds[name].needs
        }
        self.notes = sorted(lacking)

    def race(self, run: Callable[[str], T], rounds: int, seed: int) -> dict[str, list[T]]:
        """A slice of everybody in every round; who fails is excused, if that can be."""
        slices = {name: partial(run, name) for name in self.kinds}
        return measuring.interleaved(slices, rounds, seed, self.excuse)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self.kinds))

    def __contains__(self, name: str) -> bool:
        return name in self.kinds

    def __getitem__(self, name: str) -> Kind:
        return self.kinds[name]

    def may_fail(self, name: str) -> bool:
        return not ours(name) and not bare(name)

    def excuse(self, name: str, problem: Exception) -> None:
        """A peer that fails is left out from here on; the limit or Locknut failing is an error."""
        if not self.may_fail(name):
            raise problem
        del self.kinds[name]
        self.notes.append(f"{name} failed and is left out: {type(problem).__name__}: {problem}")

    def versions(self) -> dict[str, str]:
        """What of this is installed, in which version."""
        return installed(*(kind.source for kind in self.kinds.values()))


def installed(*packages: str) -> dict[str, str]:
    """The versions of those that are here."""
    found = {}
    for package in packages:
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    # What was installed apart lies in a folder of its own (scripts/setup.py).
    apart = [str(each.parent) for place in sys.path for each in Path(place).glob("*/*.dist-info")]
    found |= {
        each.name: each.version for each in distributions(path=apart) if each.name in packages
    }
    return found
