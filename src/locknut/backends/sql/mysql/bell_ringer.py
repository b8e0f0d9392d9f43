"""What the thread of the bells does: hangs some up, listens to others, rings who waits."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import Final

import pymysql

from locknut.backends.sql.mysql.bell_sessions import BellSession
from locknut.backends.sql.table_port import ANY
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
HUNG_AT_ONCE: Final = 50
"""Bells that one statement hangs up: the server does not end it when its client gives up on it."""
MOST_HUNG: Final = 500
"""Bells on the connection of those who do not wait. To hang and to free one takes MariaDB the
longer the more hang there: 0.6 and 9 ms with 8,000 of them."""
RING_AGAIN: Final = (0.002, 0.008, 0.032)
"""Seconds after which one is rung once more whose bell does not hang: it has only just joined the
line, and is about to listen."""


class _Wish:
    """A waiting claim."""

    __slots__ = ("at", "behind", "claim_id", "misses", "net", "ring", "session")

    def __init__(self, claim_id: str, ring: Callable[[], None]):
        self.claim_id = claim_id
        self.behind = ""
        self.ring = ring
        self.misses = 0
        """Rings for nothing, one after the other."""
        self.at = 0.0
        """When to listen again, or to ring where that is not possible."""
        self.net = monotonic() + NET
        """When it is rung whatever happens."""
        self.session: BellSession | None = None


class BellRinger:
    """Only for its thread; `fresh` and `where` are looked at by others, and a session may be lent:
    then it is not among the `sessions`.
    """

    def __init__(self, settings: Settings):
        self._settings = settings
        self._mutex = threading.RLock()
        """Held while a session begins or ceases to wait, or is lent."""
        self.wakes = True
        """False once it was seen that packets of one connection go to several."""
        self.fresh: dict[str, float] = {}
        """Claims that hold, and since when: their bells are not hung yet."""
        self.where: dict[str, BellSession] = {}
        """By claim id: where its bell hangs."""
        self.sessions: list[BellSession] = []
        self.lent: set[BellSession] = set()
        """Those that another thread uses for a release."""
        self.lends = True
        """False once the server has refused what was said there."""
        self._unrung: dict[str, tuple[float, int]] = {}
        """Who could not be rung yet: when to try again, and how often that was done."""
        self._put_off: dict[str, float] = {}
        """Bells that could not be hung up, because another connection has them: when to try again.
        """
        self._tower: BellSession | None = None
        """Where the bells of those hang who do not wait."""
        self._wishes: dict[str, _Wish] = {}
        self._retry_at = 0.0

    def useless(self) -> bool:
        return not (self._wishes or self.fresh or self.where or self._unrung)

    def due(self) -> float:
        """When there is something to do, as far as is known."""
        at = min((min(wish.at, wish.net) for wish in self._wishes.values()), default=math.inf)
        at = min([at, *(again for again, _ in self._unrung.values())])
        return min(at, max(monotonic() + MOMENT, self._retry_at)) if self.fresh else at

    def work(self) -> None:
        """Do what is due."""
        now = monotonic()
        self._hang_fresh(now)
        for claim_id, (again, times) in list(self._unrung.items()):
            if again <= now:
                self.ring(claim_id, times)
        for wish in list(self._wishes.values()):
            if wish.net <= now:
                wish.net = now + NET
                wish.ring()
            if wish.at <= now:
                self._listen(wish, now)
        self._drop_idle(now)

    def wait(self, claim_id: str, behind: str, ring: Callable[[], None]) -> None:
        """It waits behind that one; or it has looked, and still does."""
        wish = self._wishes.get(claim_id)
        if wish is None:
            wish = self._wishes[claim_id] = _Wish(claim_id, ring)
        wish.ring = ring
        if wish.behind != behind:
            wish.behind, wish.misses, wish.at = behind, 0, 0.0
        elif wish.at == math.inf and not (wish.session and wish.session.waits):
            paced = min(PACE, FIRST_PACE * 2.0 ** min(wish.misses, 10))
            wish.at = 0.0 if behind == ANY else monotonic() + paced

    def stop_waiting(self, claim_id: str) -> None:
        """If it is still listening, its own bell could not be freed meanwhile."""
        wish = self._wishes.pop(claim_id, None)
        session = wish.session if wish else None
        if session is not None and session.waits and (tower := self._open_tower()) is not None:
            self._try(tower, lambda: tower.interrupt(session))

    def free(self, claim_id: str) -> None:
        self.fresh.pop(claim_id, None)  # if its connection was lost meanwhile
        session = self.where.pop(claim_id, None)
        if session is not None:
            self._try(session, lambda: session.free([claim_id]))

    def ring(self, claim_id: str, times: int = 0) -> None:
        """Wake a claim of another process that waits."""
        self._unrung.pop(claim_id, None)
        tower = self._open_tower()
        if tower is None:
            return
        rung: list[bool] = []
        self._try(tower, lambda: rung.append(tower.ring(claim_id)))
        if rung == [False] and times < len(RING_AGAIN):
            self._unrung[claim_id] = monotonic() + RING_AGAIN[times], times + 1

    def lendable(self, claim_id: str) -> BellSession | None:
        """The session on which nothing but this bell hangs, if it does not wait."""
        session = self.where.get(claim_id)
        if session is None or not self.lends or session.waits or session is self._tower:
            return None
        return session

    def lend(self, claim_id: str) -> BellSession | None:
        """For another thread. From then on this one leaves it alone."""
        with self._mutex:
            session = self.lendable(claim_id)
            if session is None or session not in self.sessions or not session.alive():
                return None
            try:
                if self.where.pop(claim_id, None) is None:
                    return None  # its own thread has begun to free the bell
                self.lent.add(session)
                self.sessions.remove(session)
            except BaseException:  # an interrupt (Ctrl-C)
                session.hang_up()
                self.lent.discard(session)
                raise
        return session

    def ready(self, session: BellSession) -> None:
        """The server has said something: an answer, or that it hangs up."""
        if session.waits:
            self._hear(session)
            return
        with self._mutex:  # what it said may have been for one that it was lent to
            if session in self.sessions and not session.alive():
                self._lose(session)

    def close(self) -> None:
        for session in self.sessions:
            session.close()

    def abandon(self) -> None:
        for session in (*self.sessions, *list(self.lent)):
            session.abandon()

    def _hang_fresh(self, now: float) -> None:
        """Claims beyond the most have no bell: whoever waits for them looks now and then."""
        lasting = [each for each, since in list(self.fresh.items()) if since <= now - MOMENT]
        if self._put_off:
            self._put_off = {each: at for each, at in self._put_off.items() if each in self.fresh}
            lasting = [each for each in lasting if self._put_off.get(each, 0.0) <= now]
        tower = self._open_tower() if lasting else None
        if tower is None:
            return
        room = max(0, MOST_HUNG - len(tower.hung))
        for claim_id in lasting[room:]:
            self.fresh.pop(claim_id, None)
        for start in range(0, min(room, len(lasting)), HUNG_AT_ONCE):
            batch = lasting[start : min(room, start + HUNG_AT_ONCE)]
            if not self._try(tower, partial(tower.hang, batch)):
                return
            self._note_hung(tower, batch, now)

    def _note_hung(self, tower: BellSession, claim_ids: list[str], now: float) -> None:
        for claim_id in claim_ids:
            if claim_id not in tower.hung:
                self._put_off[claim_id] = now + AGAIN
                continue
            self.where[claim_id] = tower
            if self.fresh.pop(claim_id, None) is None:  # it was released meanwhile
                self.free(claim_id)

    def _listen(self, wish: _Wish, now: float) -> None:
        behind = wish.behind
        wish.at = math.inf
        if behind in self.fresh or behind in self._wishes or behind in self.where:
            return  # in this process: it rings when it leaves
        session = self._session_for(wish) if behind else None
        if session is None:
            wish.misses += 1
            self._ring(wish)
            wish.at = now + min(SLOW_PACE, FIRST_PACE * 2.0 ** min(wish.misses, 10))
            return
        with self._mutex:
            if session in self.sessions and not session.waits:
                wish.session = self.where[wish.claim_id] = session
                self._try(session, lambda: session.listen(wish.claim_id, behind))

    def _session_for(self, wish: _Wish) -> BellSession | None:
        """The one where its own bell hangs, or else one that is free."""
        if wish.session in self.sessions:
            return wish.session
        for session in self.sessions:
            if not session.waits and not session.hung and session is not self._tower:
                return session
        return self._open(self._settings.connections)

    def _hear(self, session: BellSession) -> None:
        heard: list[bool] = []
        with self._mutex:
            if not self._try(session, lambda: heard.append(session.heard())):
                return
        wish = next((each for each in self._wishes.values() if each.session is session), None)
        if wish is None:
            return  # nobody waits here any more; the bell stays if its claim has got in
        if heard[0]:
            wish.misses += 1
            self._ring(wish)
        else:
            wish.at = 0.0

    def _ring(self, wish: _Wish) -> None:
        wish.at, wish.net = math.inf, monotonic() + NET  # until it has looked
        wish.ring()

    def _open_tower(self) -> BellSession | None:
        """It may be one more than there may be."""
        self._tower = self._tower or self._open(self._settings.connections + 1)
        return self._tower

    def _open(self, most: int) -> BellSession | None:
        now = monotonic()
        if not self.wakes or now < self._retry_at or len(self.sessions) >= most:
            return None
        try:
            session = BellSession(self._settings)
        except (pymysql.MySQLError, OSError):
            self._retry_at = now + AGAIN
            return None
        if session.multiplexed:
            self.wakes = False
            self.fresh.clear()
            session.close()
            return None
        self.sessions.append(session)
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
        session.hang_up()
        self._forget(session)
        now = monotonic()
        for claim_id in [each for each, where in self.where.items() if where is session]:
            del self.where[claim_id]
            if claim_id not in self._wishes:
                self.fresh[claim_id] = now
        for wish in self._wishes.values():
            if wish.session is session:
                wish.session = None
                wish.misses += 1
                self._ring(wish)

    def _forget(self, session: BellSession) -> None:
        if session in self.sessions:
            self.sessions.remove(session)
        if session is self._tower:
            self._tower = None

    def _drop_idle(self, now: float) -> None:
        for session in list(self.sessions):
            if not session.waits and not session.hung and session.used < now - IDLE:
                self._forget(session)
                session.close()
