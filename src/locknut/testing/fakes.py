"""Fake locks: while they last, every Locks of this process keeps its locks in memory, by a clock
that only the test moves. No server and no file is touched.

This holds for every Locks that exists already (one made when a module was imported, say), for every
Locks that is made meanwhile, and for the default behind `locknut.lock(...)`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

import locknut
from locknut import aio, opening
from locknut.backends.memory import MemoryEngine
from locknut.core import losing
from locknut.core.client import Client
from locknut.core.holding import LeaseCore
from locknut.core.ports import Engine
from locknut.core.values import DEFAULT_NAMESPACE, Mode
from locknut.errors import BackendError, ConfigurationError, LocknutError
from locknut.runtimes import threads
from locknut.runtimes.threads import run
from locknut.testing.fake_clients import ELSEWHERE, Double
from locknut.testing.fake_clock import COURTESY, Clock
from locknut.testing.fake_engines import FakeEngine, FakeNetwork, SomebodyElse
from locknut.urls import DEFAULT_URL, parse

HOME = "memory:test"
"""The place of the Locks that a test is given, and of the default."""
_now: list[FakeLocks] = []
"""The fake locks of this moment, if there are any."""
_REAL_CLIENT = opening.client
_REAL_OPEN_URL = opening.open_url


@contextmanager
def fake_locks() -> Iterator[FakeLocks]:
    """Fake every lock of this process until the context ends. A nested call joins the outer one."""
    if _now:
        yield _now[0]
        return
    made = FakeLocks()
    _now.append(made)
    try:
        made.begin()
        yield made
    finally:
        _now.clear()
        made.end()


class FakeLocks:
    """What a test can do with the locks of the code that it tests."""

    def __init__(self) -> None:
        self.clock = Clock()
        """The clock of all fake locks. It stands still until `clock.advance(seconds)`."""
        self._line = FakeNetwork()
        self._engines: dict[str, FakeEngine] = {}
        self._doubles: list[Double] = []
        self._namespaces: dict[tuple[str, str], FakeEngine] = {}
        self._others: list[SomebodyElse] = []
        self._callers: dict[str, Any] = {}

    def begin(self) -> None:
        """Replace every real lock by a fake one, from now on."""
        home = self._engine(HOME)
        with suppress(LocknutError):  # a wrong $LOCKNUT_URL is told to the code that uses it
            self._engines[self._open_url(None, opening.Settings())[0].id] = home
        self._know(HOME, f"{DEFAULT_NAMESPACE}:", home)
        for client in list(opening._open):
            if not client.closed:
                self._fake(client)
        opening.client = self._client
        opening.open_url = self._open_url
        local = vars(threads._local)
        self._callers = dict(local)  # what this thread really holds is none of the test's
        local.clear()

    def end(self) -> None:
        """Put everything back as it was before."""
        opening.client = _REAL_CLIENT
        opening.open_url = _REAL_OPEN_URL
        for double in self._doubles:
            double.end()
        self.clock.settle()
        with self.clock.changed:
            left = lambda: not any(double.waited_for() for double in self._doubles)  # noqa: E731
            self.clock.changed.wait_for(left, COURTESY)
        for double in reversed(self._doubles):
            double.put_back()
        local = vars(threads._local)
        local.clear()
        local.update(self._callers)

    def leave_behind(self) -> None:
        """In a forked child: refuse every lock, because the fakes would not exclude the parent."""
        self.clock.forked()
        for double in self._doubles:
            double.leave_behind()
        opening.client = _refuse

    def locks(self) -> locknut.Locks:
        """Return a blocking Locks with every capability; it shares its locks with the default."""
        return locknut.Locks(MemoryEngine(HOME.partition(":")[2]))

    def aio_locks(self) -> aio.Locks:
        """Return the same for asyncio."""
        return aio.Locks(MemoryEngine(HOME.partition(":")[2]))

    def hold(
        self,
        name: str,
        *,
        mode: Mode = Mode.EXCLUSIVE,
        permits: int = 1,
        ttl: float | None = None,
    ) -> SomebodyElse:
        """Let somebody else hold this name, on every engine and in every namespace, until the
        returned object is released or `ttl` has passed.
        """
        other = SomebodyElse(self.clock, name, ttl, mode, permits)
        for (_, prefix), engine in self._namespaces.items():
            other.hold_at(engine, prefix)
        self._others.append(other)
        return other

    def lose(self, lease: LeaseCore | str) -> None:
        """Take the hold away at once: the engine frees it, and the holder is notified before this
        returns. A name stands for every hold that the code under test has on it.
        """
        if isinstance(lease, str):
            found = self._held_here(lease)
            if not found:
                pytest.fail(f"the code under test does not hold {lease!r}; {self._list_held()}")
        else:
            lease.check()
            found = [(lease._client, lease._hold)]
        for client, hold in found:
            run(self._engine(client.id).behind().release(hold.claim))
            losing.lose(client, hold, "taken")
        self.clock.settle()

    @contextmanager
    def fail_backend(self) -> Iterator[None]:
        """Cut off every engine until the context ends: commands raise BackendUnavailable."""
        self._line.cut = True
        try:
            yield
        finally:
            self._line.cut = False

    def assert_held(self, name: str) -> None:
        """Fail the test unless somebody holds this name now, on any engine and in any namespace."""
        if name not in self._held():
            pytest.fail(f"nobody holds {name!r}; {self._list_held()}")

    def _client(self, *args: Any, **options: Any) -> Client:
        made = _REAL_CLIENT(*args, **options)
        self._fake(made)
        return made

    def _open_url(self, url: Any, settings: opening.Settings) -> tuple[Engine, opening.Settings]:
        """A directory that cannot be made is not needed either."""
        try:
            return _REAL_OPEN_URL(url, settings)
        except BackendError:
            if not isinstance(url, str | None):
                raise
            parsed = parse(url or DEFAULT_URL)
            namespace = settings.namespace or parsed.options.get("namespace")
            engine = MemoryEngine()
            engine.id = parsed.text
            return engine, settings._replace(namespace=namespace)

    def _fake(self, client: Client) -> None:
        engine = self._engine(client.id)
        self._doubles.append(Double(client, engine, self.clock))
        self._know(client.id, client.prefix, engine)

    def _engine(self, place: str) -> FakeEngine:
        if place not in self._engines:
            self._engines[place] = FakeEngine(place, self.clock, self._line)
        return self._engines[place]

    def _know(self, place: str, prefix: str, engine: FakeEngine) -> None:
        """Code under test looks for names there; somebody else's holds are there too."""
        known = {(each, prefix) for each, other in self._engines.items() if other is engine}
        if known.isdisjoint(self._namespaces):
            self._namespaces[place, prefix] = engine
            for other in self._others:
                other.hold_at(engine, prefix)

    def _held(self) -> list[str]:
        found: set[str] = set()
        for (_, prefix), engine in self._namespaces.items():
            infos = run(engine.behind().inspect(None))
            held = {info.name for info in infos if info.locked}
            found |= {key.removeprefix(prefix) for key in held if key.startswith(prefix)}
        return sorted(found)

    def _list_held(self) -> str:
        return f"held are: {self._held() or 'none'}"

    def _held_here(self, name: str) -> list[tuple[Client, Any]]:
        return [
            (double.client, hold)
            for double in self._doubles
            for hold in list(double.client.holds.values())
            if double.client.bare(hold.claim.key) == name
        ]


def _refuse(*_: Any, **__: Any) -> Client:
    raise ConfigurationError(ELSEWHERE)


def _after_fork_in_child() -> None:
    if _now:
        _now.pop().leave_behind()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)  # after that of `opening`
