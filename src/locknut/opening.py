"""How a Locks is put together, and what happens to all of them at fork and at exit."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import weakref
from abc import abstractmethod
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, cast

from locknut import pickling, urls
from locknut.core import exiting, forking, pacing, validation
from locknut.core.client import Client
from locknut.core.ports import Backend, Engine, EventSink, Runtime
from locknut.core.values import Capability, KeyPolicy
from locknut.faces import hints, misuse
from locknut.faces.events import EventHub, Sink
from locknut.runtimes import cpython, threads

if TYPE_CHECKING:
    from locknut.core.recording import Recorder

_open: weakref.WeakSet[Client] = weakref.WeakSet()
_reopening = threading.RLock()
"""Threads of a forked child that reopen a client at the same time get the same one."""
_sinks: list[Sink] = []
"""Where the measurements of every Locks go."""
_measuring = threading.RLock()
"""One thread at a time begins or ends to measure: nothing is measured twice."""


class Settings(NamedTuple):
    """The options of `connect`, the same in both faces."""

    namespace: str | None = None
    label: str = ""
    require: tuple[str, ...] = ()
    cohort: int = 16
    id: str | None = None
    deadlocks: str = "ignore"
    history: int = 0
    """How many entries the engine keeps of what happens to the locks; 0: nothing is written."""
    way: hints.Way | None = None
    """How others reach the same locks, for messages; None where nothing is known but the engine."""
    origin: pickling.Origin | None = None
    """How another process reaches them; None where nothing but an engine or a client was given."""


def open_url(url: Any, settings: Settings) -> tuple[Engine, Settings]:
    """The engine, and the settings with what the URL says filled in."""
    engine, rest = urls.open_engine(url)
    namespace, inside = settings.namespace, rest.options.get("namespace")
    shown = None
    origin = pickling.Origin(url) if isinstance(url, urls.Address) else None
    if url is None or isinstance(url, str):
        text = urls.chosen(url)
        shown = hints.shown(text, engine.id)
        # `file:` may mean another directory there: the directory itself is passed on.
        origin = pickling.Origin(shown if shown and engine.id.startswith("file:") else text)
    way = hints.Way(engine.id, shown, namespace if shown or namespace is not None else inside)
    return engine, settings._replace(
        namespace=inside if namespace is None else namespace,
        id=settings.id or rest.options.get("id"),
        history=settings.history or validation.history(rest.options.get("history", 0)),
        way=way,
        origin=origin,
    )


def way_to(engine: Engine, settings: Settings) -> hints.Way:
    """How others reach the locks of this engine."""
    return settings.way or hints.Way(engine.id, None, settings.namespace)


class Opened(pickling.Named):
    """What a Locks of either face is: an object with a client, a new one in each process."""

    _lease_type: ClassVar[Callable[..., Any]]
    _made: Client
    _events: EventHub

    def __init__(self, engine: Engine, settings: Settings | None, runtime: Runtime):
        if isinstance(engine, str):
            raise misuse.made_by(type(self))
        settings = settings or Settings()
        self._events = EventHub(way_to(engine, settings))
        self._made = client(type(self), engine, runtime, settings, self._events)

    @classmethod
    def _around(cls, made: Client) -> Self:
        """Return one more Locks, with the client of another one."""
        locks = cls.__new__(cls)
        locks._made, locks._events = made, cast("EventHub", made.events)
        return locks

    @staticmethod
    @abstractmethod
    def _backend_of(engine: Engine, runtime: Runtime) -> Backend:
        """Return a backend of this face."""

    @property
    def _client(self) -> Client:
        """In a forked child another one than in the parent."""
        client = self._made
        if client.closed:
            client = self._made = forking.here(client)
        return client

    def __reduce__(self) -> tuple[object, ...]:
        return pickling.around, (type(self), self._made)


def client(
    face: type[Opened],
    engine: Engine,
    runtime: Runtime,
    settings: Settings,
    events: EventSink,
    serial: int = 0,
) -> Client:
    """Make what one Locks consists of. The keeper is a thread with a connection of its own."""
    backend = face._backend_of(engine, runtime)
    urls.ensure(backend, settings.require)
    key_policy = engine.key_policy

    def reopen(inherited: Client) -> Client:
        """Under the number of the one before: a Lock's place for re-entry is named after it."""
        with _reopening:
            if inherited.successor is None:
                again = engine.anew()
                made = client(face, again, runtime, settings, events, inherited.serial)
                inherited.successor = inherited.successor or made
        return inherited.successor

    made = Client(
        backend=backend,
        runtime=runtime,
        keeper_runtime=threads.ThreadRuntime(runtime.now),
        keeper_backend=engine.blocking,
        keeper_start=threads.start,
        events=events,
        lease_type=face._lease_type,
        namespace=_namespace(settings, key_policy),
        label=settings.label,
        cohort=validation.cohort(settings.cohort),
        id=settings.id or engine.id,
        key_policy=key_policy,
        how_to_see=way_to(engine, settings).look,
        reopen=reopen,
        serial=serial,
        carried=partial(pickling.carried, face, settings),
        identity=settings.origin.identity if settings.origin is not None else "",
        breaks=validation.breaks_deadlocks(backend, settings.deadlocks),
        place=way_to(engine, settings).place,
        recorder=_recorder(engine, backend, runtime, settings, events),
    )
    _open.add(made)
    _equip(made)
    pickling.know(made)
    weakref.finalize(made, backend.dropped).atexit = False
    return made


def _recorder(
    engine: Engine, backend: Backend, runtime: Runtime, settings: Settings, events: EventSink
) -> Recorder | None:
    """What writes the history, where one is wanted: a thread with a connection of its own."""
    keep = validation.history(settings.history)
    if not keep:
        return None
    validation.has(backend, Capability.HISTORY)
    import socket  # few programs keep a history

    from locknut.core.history_entries import Reporter
    from locknut.core.recording import Recorder

    hub = cast("EventHub", events)
    namespace = _namespace(settings, engine.key_policy)
    made = Recorder(
        prefix=namespace + ":" if namespace else "",
        keep=keep,
        reporter=Reporter(socket.gethostname(), os.getpid(), settings.label),
        runtime=threads.ThreadRuntime(runtime.now),
        connect=engine.blocking,
        start=partial(threads.start, name="locknut-history"),
        on_failure=hub.no_history,
    )
    hub.record(made.record)
    return made


def observe(sink: Sink, locks: Opened | None = None) -> Callable[[], None]:
    """Measure one Locks, or every one that there is and will be. Return a function that ends it."""
    from locknut.faces import timed_backend  # few programs measure

    with _measuring:
        if locks is None and sink not in _sinks:
            _sinks.append(sink)
        for each in _measurable(locks):
            each.events.observe(sink)
            timed_backend.begin(each)

    def stop() -> None:
        with _measuring:
            if locks is None and sink in _sinks:
                _sinks.remove(sink)
            for each in _measurable(locks):
                each.events.unobserve(sink)
                if not each.events.measured:
                    timed_backend.end(each)

    return stop


def _measurable(locks: Opened | None) -> list[Any]:  # clients, whose events are an EventHub
    return cpython.members(_open) if locks is None else [locks._client]


def _equip(made: Client) -> None:
    """A new client is measured as others are; one of a forked child as its parent's was."""
    events = cast("EventHub", made.events)
    if _sinks or events.measured:
        from locknut.faces import timed_backend  # as above

        with _measuring:
            for sink in _sinks:
                events.observe(sink)
            timed_backend.begin(made)


def _namespace(settings: Settings, key_policy: KeyPolicy) -> str:
    given = settings.namespace
    return key_policy.namespace if given is None else validation.namespace(given)


def _after_fork_in_child() -> None:
    """Leases are made inert before anything lets go of them, or their end would be acted on."""
    global _reopening, _measuring  # a thread that is not here may hold them
    _reopening, _measuring = threading.RLock(), threading.RLock()
    threads.new_party.forked()  # before anything of this process has an identity
    if "locknut.runtimes.sockets" in sys.modules:
        sys.modules["locknut.runtimes.sockets"].close_inherited()
    for each in cpython.members(_open):
        forking.leave_behind(each)
    _open.clear()
    threads.forget_all()
    if "locknut.runtimes.loop" in sys.modules:
        sys.modules["locknut.runtimes.loop"].forget_all()


def _at_exit() -> None:
    """Give back what is still held and would outlive us; and let the histories be written."""
    clients = cpython.members(_open)
    for each in clients:
        each.exiting = True
        if each.holds and not each.closed and not exiting.dies_with_us(each):
            with suppress(Exception):
                backend = each.keeper.open_backend()
                threads.run(exiting.leave(each, backend, each.keeper.runtime))
    recorders = [each.recorder for each in clients if each.recorder is not None]
    for recorder in recorders:
        recorder.hurry()
    last = threads.ThreadRuntime()
    until = last.now() + pacing.FLUSH
    for recorder in recorders:
        threads.run(recorder.close(last, until))


atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
