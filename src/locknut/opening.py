"""How a Locks is put together, and what happens to all of them at fork and at exit."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final, NamedTuple

from locknut import connect, hints
from locknut.core import doors, exiting, forking
from locknut.core.client import Client
from locknut.core.ports import Backend, Ear, Engine, Runtime
from locknut.core.values import Customs
from locknut.runtimes import threads

OUR_OWN: Final = Customs()
"""Of an engine that says nothing: nobody else's clients know its keys."""
_open: weakref.WeakSet[Client] = weakref.WeakSet()
_reopening = threading.RLock()
"""Threads of a forked child that come first get one and the same client."""


class Settings(NamedTuple):
    """The options of `connect`, the same in both faces."""

    namespace: str | None = None
    label: str = ""
    require: Iterable[str] = ()
    cohort: int = 16
    id: str | None = None
    way: hints.Way | None = None
    """How others reach the same locks, for messages; None where nothing is known but the engine."""


def open_url(url: Any, settings: Settings) -> tuple[Engine, Settings]:
    """The engine, and the settings with what the URL says filled in."""
    engine, rest = connect.open_engine(url)
    namespace, inside = settings.namespace, rest.options.get("namespace")
    shown = None
    if url is None or isinstance(url, str):
        shown = hints.shown(connect.chosen(url), engine.id)
    way = hints.Way(engine.id, shown, namespace if shown or namespace is not None else inside)
    return engine, settings._replace(
        namespace=inside if namespace is None else namespace,
        id=settings.id or rest.options.get("id"),
        way=way,
    )


def way_to(engine: Engine, settings: Settings) -> hints.Way:
    """How others reach the locks of this engine."""
    return settings.way or hints.Way(engine.id, None, settings.namespace)


class Opened:
    """What a Locks of either colour is: somebody with a client, in each process its own."""

    _made: Client

    @property
    def _client(self) -> Client:
        """In a forked child another one than in the parent."""
        client = self._made
        if client.closed:
            client = self._made = forking.here(client)
        return client


def client(  # noqa: PLR0913, PLR0917  # all that is needed to do it again in a forked child
    engine: Engine,
    open_backend: Callable[[Engine], Backend],
    runtime: Runtime,
    settings: Settings,
    lease_type: Callable[..., Any],
    ear: Ear,
    serial: int = 0,
) -> Client:
    """Everything one Locks is made of. The keeper is a thread with a connection of its own."""
    backend = open_backend(engine)
    connect.ensure(backend, settings.require)
    customs: Customs = getattr(engine, "customs", OUR_OWN)

    def reopen(inherited: Client) -> Client:
        """Under the number of the one before: a Lock's place for re-entry is named after it."""
        with _reopening:
            if inherited.successor is None:
                again = getattr(engine, "anew", lambda: engine)()
                made = client(
                    again, open_backend, runtime, settings, lease_type, ear, inherited.serial
                )
                inherited.successor = inherited.successor or made
        return inherited.successor

    made = Client(
        backend=backend,
        runtime=runtime,
        keeper_runtime=threads.ThreadRuntime(runtime.now),
        keeper_backend=engine.blocking,
        keeper_start=threads.start,
        ear=ear,
        lease_type=lease_type,
        namespace=_namespace(settings, customs),
        label=settings.label,
        cohort=doors.cohort(settings.cohort),
        id=settings.id or engine.id,
        customs=customs,
        how_to_see=way_to(engine, settings).look,
        reopen=reopen,
        serial=serial,
    )
    _open.add(made)
    dropped = getattr(backend, "dropped", None)
    if dropped is not None:
        weakref.finalize(made, dropped).atexit = False
    return made


def _namespace(settings: Settings, customs: Customs) -> str:
    given = settings.namespace
    return customs.namespace if given is None else doors.namespace(given)


def _after_fork_in_child() -> None:
    """Leases are made inert before anything lets go of them, or their end would be acted on."""
    global _reopening  # noqa: PLW0603  # the parent's may be held by a thread that is not here
    _reopening = threading.RLock()
    if "locknut.runtimes.sockets" in sys.modules:
        sys.modules["locknut.runtimes.sockets"].close_inherited()
    for each in list(_open):
        forking.leave_behind(each)
    _open.clear()
    threads.forget_all()
    if "locknut.runtimes.loop" in sys.modules:
        sys.modules["locknut.runtimes.loop"].forget_all()


def _at_exit() -> None:
    """Give back what is still held and would outlive us."""
    for each in list(_open):
        each.exiting = True
        if each.holds and not each.closed and not exiting.dies_with_us(each):
            with suppress(Exception):
                backend = each.keeper._open_backend()
                threads.run(exiting.leave(each, backend, each.keeper.runtime))


atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
