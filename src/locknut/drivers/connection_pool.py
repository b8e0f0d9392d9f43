"""The connections of one client: at most so many, kept for the next command, left when in doubt.

Everything here blocks the calling thread, for no longer than its caller can wait. What a connection
is, and what an error of its driver means, says the pool of that driver.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from threading import get_ident
from time import monotonic
from typing import ClassVar, Final, Generic, Protocol, TypeVar

from locknut.drivers.connection_places import Place, Places
from locknut.errors import BackendUnavailable, LocknutError
from locknut.runtimes.deadlines import time_left

IDLE_UNCHECKED: Final = 0.01
"""Seconds after which an idle connection is looked at before it is used: a server that restarted
has hung up, and a release that is sent to nobody is a release in doubt."""


class Session(Protocol):
    """One connection, which belongs to one thread at a time."""

    used: float
    """When it was used last."""

    def alive(self) -> bool:
        """Whether the server has not hung up, as far as is known without a question."""

    def close(self) -> None: ...

    def abandon(self) -> None:
        """In a forked child, where it is the parent's: let go of it without a word."""


class Limited(Protocol):
    """Where the server is, and how much may be asked of it."""

    @property
    def scheme(self) -> str: ...

    @property
    def address(self) -> str:
        """What may be shown."""

    @property
    def limit(self) -> float:
        """Seconds that connecting, or a command, may take."""

    @property
    def connections(self) -> int:
        """At most so many at a time."""


@dataclass(frozen=True, slots=True)
class Limits:
    """These, and nothing else."""

    scheme: str
    address: str
    limit: float
    connections: int = 8


T = TypeVar("T")
S = TypeVar("S", bound=Session)
Work = Callable[[S, Callable[[], float]], T]
"""What is done with a session; the second argument says how long it may take from now on."""


class ConnectionPool(ABC, Generic[S]):
    """For many threads. A thread in the middle of a command may come in again: see `inside`."""

    errors: ClassVar[type[Exception] | tuple[type[Exception], ...]]
    """What the driver raises."""
    tries: ClassVar[int] = 5
    """How often something is done that was undone by others."""

    def __init__(self, limits: Limited):
        self.limits = limits
        self._begin_anew()

    @abstractmethod
    def _open(self) -> S:
        """A new connection, ready for use."""

    @abstractmethod
    def is_answer(self, error: BaseException) -> bool:
        """Whether the server said it, and goes on listening on that connection."""

    @abstractmethod
    def _learn(self, error: Exception, tries_left: int) -> None:
        """Raise what it comes to, unless trying again is worth it: nothing was done then."""

    def forked(self) -> None:
        """Begin anew. What was inherited is let go of without a word."""
        for session in (*self._idle, *self._lent):
            session.abandon()
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._idle: list[S] = []
        self._lent: dict[S, int] = {}
        """What is in use, and by which thread."""
        self._busy: set[int] = set()
        self._closed = False
        self._places = Places(self.limits.connections)

    def inside(self) -> bool:
        """Whether this thread is in the middle of a command, and there is no further place."""
        return get_ident() in self._busy and self._places.all_taken()

    def with_session(self, work: Work[S, T], *, transaction: bool = False) -> T:
        """Do it; again if it was undone. What fails in an open `transaction` ends the session."""
        me, outer, place = get_ident(), get_ident() in self._busy, Place()
        try:
            if not self._places.occupy(place, self._left()):
                raise self.all_busy()
            self._busy.add(me)
            for left in range(self.tries, 0, -1):
                try:
                    return self._once(work, transaction=transaction)
                except LocknutError:  # that no time is left, say, which is an OSError as well
                    raise
                except self.errors as error:
                    self._learn(error, left)
        finally:
            try:
                self._leave(place, None if outer else me)
            except BaseException:  # an interrupt (Ctrl-C): it is finished all the same
                self._leave(place, None if outer else me)
                raise
        raise AssertionError("the last try raises")

    def _leave(self, place: Place, thread: int | None) -> None:
        """Can be asked for again."""
        if thread is not None:
            self._busy.discard(thread)
        self._places.vacate(place)

    def all_busy(self) -> BackendUnavailable:
        """Nothing was sent."""
        message = (
            f"all {self.limits.connections} connections to {self.limits.address} are busy; "
            "more are allowed with ?connections="
        )
        return BackendUnavailable(message, backend=self.limits.scheme)

    def _once(self, work: Work[S, T], *, transaction: bool) -> T:
        session = self._session()
        self._lent[session] = get_ident()
        try:
            result = work(session, self._left)
        except BaseException as error:
            # Whatever is in doubt, or still has a transaction, is not used again.
            if transaction or self._closed or not self.is_answer(error):
                session.close()
            else:
                self._idle.append(session)
            if isinstance(error, self.errors) and not self.is_answer(error):
                self._forget()  # after a restart all the others are dead, too
            raise
        else:
            if self._closed:
                session.close()
            else:
                self._idle.append(session)
            return result
        finally:
            self._lent.pop(session, None)  # not before it is idle: somebody may look for it

    def _session(self) -> S:
        return self._kept() or self._open()

    def _kept(self) -> S | None:
        while self._idle:
            try:
                session = self._idle.pop()
            except IndexError:  # another thread was faster
                break
            if monotonic() - session.used < IDLE_UNCHECKED or session.alive():
                return session
            session.close()
        return None

    def _left(self) -> float:
        try:
            return time_left(self.limits.limit)
        except TimeoutError as error:
            message = f"no time is left to ask {self.limits.address}"
            raise BackendUnavailable(message, backend=self.limits.scheme) from error

    def hung_up(self) -> bool:
        """Whether the server has cut an idle connection."""
        cut = [each for each in list(self._idle) if not each.alive()]
        if cut:
            self._forget()
        return bool(cut)

    def _forget(self) -> None:
        idle, self._idle = self._idle, []
        for session in idle:
            session.close()

    def close(self) -> None:
        """A last command may still come: it connects anew, and hangs up again."""
        self._closed = True
        self._forget()
