"""How a waiting thread learns of its grant: from an inbox of its own, which it reads by BLPOP."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol

from hiredis import ReplyError

from locknut.backends.redis.recipe import Recipe, bulk
from locknut.backends.redis.waiting_claims import WaitingClaim
from locknut.core.ports import Signal
from locknut.core.values import Answer, Busy, Claim, Granted, Notice, Renewal
from locknut.drivers.redis.connections import Connection
from locknut.drivers.redis.endpoints import TimeAndChance
from locknut.drivers.redis.settings import Settings
from locknut.drivers.redis.wire import NOTHING
from locknut.errors import BackendError, BackendUnavailable
from locknut.runtimes import threads
from locknut.runtimes.deadlines import within

SLICE: Final = 1.0
"""The longest BLPOP: after it the claim is shown to be alive again."""
_LATE: Final = 0.005
"""How late a server may answer that a BLPOP is over where somebody's time runs out. A busy server
answers at once, an idle one looks only ten times a second: then it owes us the answer
(`OwedAnswers`)."""
_REST: Final = 0.5
"""Seconds by which a caller may be rung early, and those by which it is sent to sleep for longer
than a slice. So a slice that nobody is in a hurry for ends by the server's answer."""
_PAUSE: Final = 0.1
"""After a slice that found no server; asking again has its own patience."""
_UNASKED: Final = object()
_FIRST_INBOX: Final = bulk(b"l0")
_BLPOP_FOLLOWS: Final = bulk(b"b0")
_MOST_CROWDED: Final = 1000


class Connections(Protocol):
    """A pool, or the pools of a cluster's nodes."""

    @property
    def settings(self) -> Settings: ...

    def send(self, packed: bytes) -> Any: ...

    def send_many(self, packed: Sequence[bytes]) -> Sequence[object]: ...

    def lent(self, packed: bytes) -> AbstractContextManager[Connection]: ...

    def longest_slice(self, wanted: float) -> float: ...

    def era_of(self, packed: bytes) -> object: ...

    def refused(self, reply: ReplyError) -> BackendError: ...

    def listen(self, moved: Callable[[], None]) -> None: ...

    def hung_up(self) -> bool: ...

    def close(self) -> None: ...


class InboxDelivery:
    """A thread learns of its grant from an inbox, a list that it sleeps on with BLPOP."""

    sleeps_with_question = True

    def __init__(self, pool: Connections, recipe: Recipe, clock: TimeAndChance, *, confirmed: bool):
        self._pool = pool
        self._recipe = recipe
        self._now = clock.now
        self._confirmed = confirmed
        """Whether replicas have to know of a grant: then a message is not enough."""
        self._closed = False
        self._asleep: set[Connection] = set()
        """Where somebody sleeps that closing has to wake: the core does not know of it."""
        self.waiting: dict[str, WaitingClaim] = {}
        self.early: dict[str, tuple[bytes, float]] = {}
        self.crowded: set[str] = set()

    def reply_to(self, waiting: WaitingClaim | None) -> bytes:
        if waiting is None or waiting.generation == 0:
            return _FIRST_INBOX
        return bulk(b"l%d" % waiting.generation)

    def signal(self, waiting: WaitingClaim, plain: Callable[[], Signal]) -> Signal:
        if not self._confirmed:
            if len(self.crowded) >= _MOST_CROWDED:
                self.crowded.clear()
            self.crowded.add(waiting.claim.key)
        return self._inbox(waiting, plain)

    def _inbox(self, waiting: WaitingClaim, plain: Callable[[], Signal]) -> Inbox:
        return Inbox(self._pool, self._recipe, waiting, plain, self._now)

    def ring(self, waiting: WaitingClaim) -> None:
        """It looks every second by itself."""

    def until_asked(self, waiting: WaitingClaim, busy: Busy, another_asks: bool) -> Busy:  # noqa: ARG002 -- all alike
        """A claim that does not ask for all sleeps for a slice, and asks by itself after that."""
        calm = another_asks or busy.retry_in >= SLICE
        return Busy(max(SLICE, busy.retry_in) + _REST / 2) if calm else busy

    def listen(self, on_notice: Callable[[str | None, Notice], None]) -> None:
        """Nobody listens all the time here; but another thread may find that the server is another,
        and then holds may be somebody else's: they are looked at, at once.
        """
        self._pool.listen(lambda: on_notice(None, Renewal.HELD))

    async def ask_and_sleep(self, claim: Claim, patience: float) -> Answer | None:
        """Ask, and sleep in BLPOP for a slice, in one write: a claim that has to wait goes to sleep
        at once, and has its grant in a few steps. A claim that is let in at once finds a message as
        well, so that BLPOP does not hold up the connection. Where a loop would stand still
        meanwhile, we only ask: the core has to know before anybody sleeps, and warns.
        """
        if threads.runs_a_loop():
            return None
        most, seconds = _slice(patience, self._pool)
        packed = self._recipe.acquire(claim, _BLPOP_FOLLOWS) + self._recipe.pop(claim, 0, most)
        waiting = WaitingClaim(claim)
        sent = self._now()
        try:
            answer, popped = await self._send_two(packed, most, seconds)
        except BaseException:
            self.waiting[claim.id] = waiting
            waiting.move()  # that connection may be read by the server for a while (L5)
            raise
        if type(answer) is int:
            self.crowded.discard(claim.key)
            return Granted(answer)
        if type(answer) is list:
            waiting.last_raw = answer[1]
            if type(popped) is list and waiting.take_message(popped[1], sent):
                known = waiting.answer(self._now())
                if known is not None:
                    return known
        self.waiting[claim.id] = waiting  # from here on in the usual way
        if popped is NOTHING:
            waiting.move()
        return Busy(0.0) if type(answer) is list else None

    async def _send_two(self, packed: bytes, most: float, seconds: float) -> tuple[Any, Any]:
        """The answers to a question and to the BLPOP behind it: NOTHING if that one may sleep for
        longer than it should. Then its connection is not used before that has come.
        """
        with self._pool.lent(packed) as connection:
            self._asleep.add(connection)
            try:
                if self._closed:  # just now: closing did not see this connection yet
                    raise ConnectionAbortedError("closed")
                answer = connection.send(packed)
                if type(answer) is int:
                    return answer, connection.next()
                popped = NOTHING
                if type(answer) is list:
                    until_next = answer[0] / 1000
                    popped = connection.next_within(until_next if until_next < most else seconds)
                if popped is NOTHING:
                    connection.owes = _anything
                return answer, popped
            finally:
                self._asleep.discard(connection)

    def close(self) -> None:
        self._closed = True
        for connection in list(self._asleep):
            connection.interrupt()

    def forked(self) -> None:
        self.waiting.clear()
        self._asleep.clear()


class Inbox:
    """Sleeps until the server leaves a grant in this claim's inbox, or somebody rings."""

    __slots__ = (
        "_mutex",
        "_now",
        "_pause",
        "_pool",
        "_recipe",
        "_rung",
        "_signal",
        "_sleeping",
        "_waiting",
    )

    def __init__(
        self,
        pool: Connections,
        recipe: Recipe,
        waiting: WaitingClaim,
        signal: Callable[[], Signal],
        now: Callable[[], float],
    ):
        self._now = now
        self._pool = pool
        self._recipe = recipe
        self._waiting = waiting
        self._signal = signal
        self._pause: Signal | None = None
        """What is slept on instead while there is no server: hardly ever needed."""
        self._rung = False
        self._mutex = threading.RLock()
        self._sleeping: Connection | None = None

    def notify(self) -> None:
        with self._mutex:
            self._rung = True
            if self._sleeping is not None:
                self._sleeping.interrupt()
            if self._pause is not None:
                self._pause.notify()

    async def wait(self, until: float) -> bool:  # noqa: C901  # one loop
        waiting = self._waiting
        while not self._rung:
            sent = self._now()
            left = until - sent
            if left <= 0:
                return False
            most, seconds = _slice(left, self._pool)
            packed = self._recipe.pop(waiting.claim, waiting.generation, most)
            try:
                reply, era = await self._send(packed, seconds)
                if isinstance(reply, ReplyError):
                    raise self._pool.refused(reply)
            except BackendUnavailable:
                waiting.move()
                await self._wait_a_little(until)
                self._rung = False
                return True
            if reply is None:
                waiting.anchor, waiting.era = sent, era
                if until - self._now() < _REST:
                    return True  # too little for another slice: what is left is waited for with it
            elif reply is NOTHING:
                waiting.move()
            elif reply is _UNASKED:
                continue
            elif era is not waiting.era:
                waiting.doubt()
                return True  # of another server than the answer it would count from: ask it
            elif waiting.take_message(reply[1], waiting.anchor):
                return True
        self._rung = False
        return True

    async def _wait_a_little(self, until: float) -> None:
        self._pause = pause = self._signal()
        if not self._rung:
            await pause.wait(min(until, self._now() + _PAUSE))
        self._pause = None

    async def _send(self, packed: bytes, seconds: float) -> tuple[Any, object]:
        """What came, if anything, and in which of the pool's eras. Also a connection that has to be
        opened first takes no longer.
        """
        return await within(self._sent(packed, seconds), self._now() + seconds)

    async def _sent(self, packed: bytes, seconds: float) -> tuple[Any, object]:
        with self._pool.lent(packed) as connection:
            self._sleeping = connection
            try:
                if self._rung:  # just now: the thread that rang did not see this connection yet
                    return _UNASKED, None
                reply, era = connection.send_within(packed, seconds), connection.era
                if reply is NOTHING:
                    connection.owes = _anything
                return reply, era
            finally:
                with self._mutex:  # from here on it is not ours to interrupt
                    self._sleeping = None


def _anything(_: object) -> bool:
    """One answer is owed: that of a BLPOP. If it is a grant, its claim was withdrawn, or asks."""
    return True


def _slice(left: float, pool: Connections) -> tuple[float, float]:
    """For how long to sleep in BLPOP, and to wait for its answer."""
    most = min(left, pool.longest_slice(SLICE))
    return most, math.inf if left > pool.settings.limit else left + _LATE
