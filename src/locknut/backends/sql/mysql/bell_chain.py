"""Who waits is woken by the one before it: its bell is a named lock, which is free when it goes.

A claim's bell hangs from the time that it waits, or holds for more than a moment, until it does
neither. Each waiter waits at the server for the bell of the one before it, a waiter or the holder.
A bell is named after its claim and never used again. So it is no matter whether it was freed before
or after somebody began to wait for it: no ring is lost. If it was not hung up yet, or its client is
gone, the waiter looks for nothing, and then less and less often.

One thread of the process does it for all its claims. Where the one before is in this process, no
connection is needed. Claims beyond the number of connections look now and then.
"""

from __future__ import annotations

import math
import select
import socket
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from time import monotonic
from typing import Final

import pymysql

from locknut.backends.sql.mysql.bell_sessions import BellSession
from locknut.core.ports import Runtime
from locknut.drivers.mysql.settings import Settings

MOMENT: Final = 0.03
"""Seconds that a hold lasts before its bell is hung up: most are shorter, and cost nothing so."""
FIRST_PACE: Final = 0.005
PACE: Final = 0.1
"""Seconds between looks of a claim that cannot be rung: the first, and the longest."""
SLOW_PACE: Final = 0.5
"""The longest for one that has no connection to listen on."""
NET: Final = 5.0
"""Seconds after which one is rung that was not: its lock may have been broken, or given back by
another client than the one that has its bell."""
AGAIN: Final = 1.0
"""Seconds after a failure until a connection is tried anew."""
IDLE: Final = 10.0
"""Seconds after which a connection, and then the thread, that is of no use ends."""


_NOBODY: Final[dict[str, Callable[[], None]]] = {}


class _Wish:
    """A waiting claim."""

    __slots__ = ("at", "behind", "claim_id", "misses", "net", "ring", "session")

    def __init__(self, claim_id: str):
        self.claim_id = claim_id
        self.behind = ""
        self.misses = 0
        """Rings for nothing, one after the other."""
        self.at = 0.0
        """When to listen again, or to ring where that is not possible."""
        self.net = monotonic() + NET
        """When it is rung whatever happens."""
        self.session: BellSession | None = None
        self.ring: Callable[[], None] = _nobody


class BellChain:
    """The bells of all claims of one engine in this process. Its methods never wait."""

    def __init__(self, settings: Settings):
        self._settings = settings
        self.wakes = True
        """False once it was seen that packets of one connection go to several: see `_open`."""
        self._users = 0
        self._sessions: list[BellSession] = []
        self._tower: BellSession | None = None
        self._alarm: tuple[socket.socket, socket.socket] | None = None
        self.forked()

    def forked(self) -> None:
        """Begin anew, without a word to the server."""
        for session in self._sessions:
            session.abandon()
        for end in self._alarm or ():
            end.close()
        self._mutex = threading.RLock()
        self._running = False
        self._alarm = None
        self._calls: deque[Callable[[], None]] = deque()
        self._fresh: dict[str, float] = {}
        """Claims that hold, and since when: their bells are not hung yet."""
        self._behind: dict[str, str] = {}
        self._followers: dict[str, dict[str, Callable[[], None]]] = {}
        """By claim id: who waits behind it."""
        self._wishes: dict[str, _Wish] = {}
        self._sessions = []
        self._where: dict[str, BellSession] = {}
        """By claim id: where its bell hangs."""
        self._tower = None
        self._retry_at = 0.0
        self._sleeps = False

    def join(self) -> None:
        self._users += 1

    def part(self) -> None:
        """The last one ends it."""
        self._users -= 1
        if self._users <= 0 and self._running:
            self._post(_nothing)

    # What the backends say, on any thread.

    def entered(self, claim_id: str, *, alone: bool) -> None:
        """It holds. One that shares the lock lets those behind it look whether they can come in."""
        if not alone:
            self.left(claim_id)
        elif claim_id not in self._where:
            self._fresh[claim_id] = monotonic()
            if self._sleeps or not self._running:
                self._post(_nothing)

    def left(self, claim_id: str) -> None:
        """It neither holds nor waits any more. Who is behind it in this process looks at once."""
        fresh = self._fresh.pop(claim_id, None)
        for ring in self._followers.pop(claim_id, _NOBODY).values():
            ring()
        if self._running and (fresh is None or claim_id in self._where):
            self._post(lambda: self._free(claim_id))

    def expect(self, claim_id: str, behind: str, ring: Callable[[], None]) -> None:
        self._unfollow(claim_id)
        self._behind[claim_id] = behind
        self._followers.setdefault(behind, {})[claim_id] = ring
        self._post(lambda: self._wait(claim_id, behind, ring))

    def forget(self, claim_id: str) -> None:
        self._unfollow(claim_id)
        self._post(lambda: self._stop_waiting(claim_id))

    def _unfollow(self, claim_id: str) -> None:
        behind = self._behind.pop(claim_id, "")
        followers = self._followers.get(behind)
        if followers is not None:
            followers.pop(claim_id, None)
            if not followers:
                self._followers.pop(behind, None)

    def _post(self, call: Callable[[], None]) -> None:
        if self._users <= 0 and not self._running:
            return
        self._calls.append(call)
        with self._mutex:
            if not self._running:
                self._running = True
                self._alarm = socket.socketpair()
                for end in self._alarm:
                    end.setblocking(False)
                work = threading.Thread(target=self._work, name="locknut-bells", daemon=True)
                work.start()
            alarm = self._alarm
        if alarm is not None:
            with suppress(BlockingIOError, OSError):
                alarm[0].send(b"!")

    # What the thread does.

    def _work(self) -> None:
        try:
            while self._step():
                pass
        finally:
            self._end()

    def _step(self) -> bool:
        """False: there is nothing more to do."""
        while self._calls:
            self._calls.popleft()()
        if self._users <= 0:
            return False
        now = monotonic()
        self._hang_fresh(now)
        for wish in list(self._wishes.values()):
            if wish.net <= now:
                wish.net = now + NET
                wish.ring()
            if wish.at <= now:
                self._listen(wish, now)
        self._drop_idle(now)
        return self._sleep()

    def _end(self) -> None:
        for session in self._sessions:
            session.close()
        with self._mutex:
            alarm, self._alarm, self._running = self._alarm, None, False
            self._sessions, self._tower = [], None
            self._where.clear()
            again = bool(self._calls) and self._users > 0
        for end in alarm or ():
            end.close()
        if again:
            self._post(_nothing)

    def _sleep(self) -> bool:
        """Until something happens, or is due; False: nothing has happened for long."""
        alarm = self._alarm
        if alarm is None:
            return False
        at = min((min(wish.at, wish.net) for wish in self._wishes.values()), default=math.inf)
        self._sleeps = True  # before the look: who comes after it sounds the alarm
        if self._fresh:
            at, self._sleeps = min(at, monotonic() + MOMENT), False
        useless = not self._wishes and not self._fresh and not self._where
        if self._calls:
            return True
        pause = max(0.0, min(IDLE, at - monotonic()))
        listening: list[socket.socket | BellSession] = [alarm[1], *self._sessions]
        ready, _, _ = select.select(listening, [], [], pause)
        self._sleeps = False
        if alarm[1] in ready:
            with suppress(BlockingIOError):
                alarm[1].recv(4096)
        for session in ready:
            if isinstance(session, BellSession):  # one that has nothing to say hangs up
                self._hear(session) if session.waits else self._lose(session)
        return bool(ready or self._calls) or not useless

    def _wait(self, claim_id: str, behind: str, ring: Callable[[], None]) -> None:
        wish = self._wishes.get(claim_id)
        if wish is None:
            wish = self._wishes[claim_id] = _Wish(claim_id)
        wish.ring = ring
        if wish.behind != behind:
            wish.behind, wish.misses, wish.at = behind, 0, 0.0
        elif wish.at == math.inf and not (wish.session and wish.session.waits):
            wish.at = monotonic() + min(PACE, FIRST_PACE * 2.0 ** min(wish.misses, 10))

    def _stop_waiting(self, claim_id: str) -> None:
        """If it is still listening, its own bell could not be freed meanwhile."""
        wish = self._wishes.pop(claim_id, None)
        session = wish.session if wish else None
        if session is not None and session.waits:
            tower = self._tower = self._tower or self._open()
            if tower is not None:
                self._try(tower, lambda: tower.interrupt(session))

    def _free(self, claim_id: str) -> None:
        session = self._where.pop(claim_id, None)
        if session is not None:
            self._try(session, lambda: session.free([claim_id]))

    def _hang_fresh(self, now: float) -> None:
        lasting = [each for each, since in list(self._fresh.items()) if since <= now - MOMENT]
        if not lasting:
            return
        tower = self._tower or self._open()
        if tower is None:
            return
        self._tower = tower
        if self._try(tower, lambda: tower.hang(lasting)):
            for claim_id in lasting:
                if claim_id in tower.hung:
                    self._where[claim_id] = tower
                    if self._fresh.pop(claim_id, None) is None:  # it was released meanwhile
                        self._free(claim_id)

    def _listen(self, wish: _Wish, now: float) -> None:
        behind = wish.behind
        if behind in self._fresh or behind in self._wishes or behind in self._where:
            wish.at = math.inf  # in this process: `left` rings
            return
        session = self._session_for(wish) if behind else None
        if session is None:
            wish.misses += 1
            self._ring(wish)
            wish.at = now + min(SLOW_PACE, FIRST_PACE * 2.0 ** min(wish.misses, 10))
        elif not session.waits:
            wish.session, wish.at = session, math.inf
            self._where[wish.claim_id] = session
            self._try(session, lambda: session.listen(wish.claim_id, behind))
        else:
            wish.at = math.inf

    def _session_for(self, wish: _Wish) -> BellSession | None:
        """The one where its own bell hangs, or else one that is free."""
        if wish.session in self._sessions:
            return wish.session
        for session in self._sessions:
            if not session.waits and not session.hung and session is not self._tower:
                return session
        return self._open()

    def _hear(self, session: BellSession) -> None:
        heard: list[bool] = []
        if not self._try(session, lambda: heard.append(session.heard())):
            return
        for wish in self._wishes.values():
            if wish.session is session:
                if heard[0]:
                    wish.misses += 1
                    self._ring(wish)
                else:
                    wish.at = 0.0
                return
        # Nobody waits here any more; the bell stays if its claim has got in.

    def _ring(self, wish: _Wish) -> None:
        wish.at, wish.net = math.inf, monotonic() + NET  # until it has looked
        wish.ring()

    def _open(self) -> BellSession | None:
        """A further connection, if there may be one."""
        now = monotonic()
        if not self.wakes or now < self._retry_at:
            return None
        if len(self._sessions) >= self._settings.connections:
            return None
        try:
            session = BellSession(self._settings)
        except (pymysql.MySQLError, OSError):
            self._retry_at = now + AGAIN
            return None
        if session.multiplexed:
            self.wakes = False
            session.close()
            return None
        self._sessions.append(session)
        return session

    def _try(self, session: BellSession, work: Callable[[], object]) -> bool:
        try:
            work()
        except (pymysql.MySQLError, OSError):
            self._lose(session)
            return False
        return True

    def _lose(self, session: BellSession) -> None:
        """What hung there is free, so those behind it look; and so do those who listened there."""
        session.abandon()
        if session in self._sessions:
            self._sessions.remove(session)
        if session is self._tower:
            self._tower = None
        now = monotonic()
        for claim_id in [each for each, where in self._where.items() if where is session]:
            del self._where[claim_id]
            if claim_id not in self._wishes:
                self._fresh[claim_id] = now
        for wish in self._wishes.values():
            if wish.session is session:
                wish.session = None
                wish.misses += 1
                self._ring(wish)

    def _drop_idle(self, now: float) -> None:
        for session in list(self._sessions):
            if not session.waits and not session.hung and session.used < now - IDLE:
                self._sessions.remove(session)
                if session is self._tower:
                    self._tower = None
                session.close()


class ChainBells:
    """The `Bells` of one backend: its place in the chain."""

    def __init__(self, chain: BellChain, runtime: Runtime):
        self._chain = chain
        self._runtime = runtime
        self._joined = True
        self.client = runtime.new_id()
        self.wakes = chain.wakes
        chain.join()

    def expect(self, key: bytes, claim_id: str, behind: str, ring: Callable[[], None]) -> None:  # noqa: ARG002 -- the claim before it is enough
        self._chain.expect(claim_id, behind, ring)

    def forget(self, claim_id: str) -> None:
        self._chain.forget(claim_id)

    async def ring(self, waiting: Sequence[tuple[str, str]]) -> None:
        """They wait for a bell that is being freed."""

    async def close(self) -> None:
        self.dropped()

    def dropped(self) -> None:
        if self._joined:
            self._joined = False
            self._chain.part()

    def forked(self) -> None:
        self._chain.forked()
        self.client = self._runtime.new_id()


def _nothing() -> None:
    """Only wakes the thread."""


def _nobody() -> None:
    """Is rung."""
