"""How a Locks is put together, and what happens to all of them at fork and at exit."""

from __future__ import annotations

import atexit
import os
import sys
import weakref
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final, NamedTuple

from locknut import connect, hints
from locknut.core import doors, exiting
from locknut.core.client import Client
from locknut.core.ports import Backend, Ear, Engine, Runtime
from locknut.core.values import Customs
from locknut.runtimes import threads

OUR_OWN: Final = Customs()
"""Of an engine that says nothing: nobody else's clients know its keys."""
_open: weakref.WeakSet[Client] = weakref.WeakSet()


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


def client(
    engine: Engine,
    backend: Backend,
    runtime: Runtime,
    settings: Settings,
    lease_type: Callable[..., Any],
    ear: Ear,
) -> Client:
    """Everything one Locks is made of. The keeper is a thread with a connection of its own."""
    connect.ensure(backend, settings.require)
    customs: Customs = getattr(engine, "customs", OUR_OWN)
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
    for each in list(_open):
        each.forked()
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
