"""A waiter is woken by NOTIFY: a channel for each client, and the beginning of a claim id on it.

The NOTIFY is a statement of its own, after the release was committed. In the same transaction it
would save a round trip, but all transactions that notify commit one after the other, on the whole
server, and each would wait for the disk meanwhile. By itself it need not wait for the disk.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from locknut.backends.sql.postgresql.table_questions import Questions
from locknut.core.ports import Runtime
from locknut.drivers.postgresql.exchange import Call, statement
from locknut.drivers.postgresql.listener import Listener
from locknut.drivers.postgresql.session_pool import SessionPool

_SHOWN: Final = 16
"""Characters of a claim id that are sent: enough to know it by, and not the secret itself."""
_MOST_EARLY: Final = 1000
LINGER: Final = 30.0
"""Seconds for which a client goes on listening when nobody waits any more."""
_NOTIFY: Final = statement(
    "SELECT pg_notify('locknut_' || client, claim) "
    "FROM unnest(:clients, :claims) AS rung (client, claim), "
    "(SELECT set_config('synchronous_commit', 'off', true)) AS quick"
)


class Doorbells:
    """Those of one client's claims that wait."""

    def __init__(self, questions: Questions, pool: SessionPool, runtime: Runtime):
        self._questions = questions
        self._pool = pool
        self._runtime = runtime
        self.forked()

    def forked(self) -> None:
        """The child is another client, and nobody listens for it yet."""
        self.client = self._runtime.new_id()
        self._guard = self._runtime.guard()
        self._rings: dict[str, Callable[[], None]] = {}
        self._early: set[str] = set()
        """Rung before they were expected: the answer that lets them wait is still on its way."""
        self._asked: dict[str, float] = {}
        """When each of those asked whose answer is on its way."""
        self._listener: Listener | None = None
        self._unused_since: float | None = None
        self._closed = False

    @property
    def wakes(self) -> bool:
        return not self._pool.primary.pooled

    def expect(self, key: bytes, claim_id: str, behind: str, ring: Callable[[], None]) -> None:  # noqa: ARG002
        shown = claim_id[:_SHOWN]
        with self._guard:
            new = shown not in self._rings
            self._rings[shown] = ring
            self._unused_since = None
            asked = self._asked.get(claim_id, 0.0)
            missed = shown in self._early
            self._early.discard(shown)
            if self._listener is None and self.wakes and not self._closed:
                self._listener = self._listening()
            since = None if self._listener is None else self._listener.since
        # A listener that came after the question may have missed the ring. One that is still to
        # come rings everybody.
        if missed or (new and since is not None and since >= asked):
            ring()

    def asks(self, claim_id: str) -> None:
        """It is about to ask, and may have to wait."""
        self._asked[claim_id] = self._runtime.now()

    def was_answered(self, claim_id: str) -> None:
        self._asked.pop(claim_id, None)

    def _listening(self) -> Listener | None:
        settings, primary = self._pool.settings, self._pool.primary
        channel = f"locknut_{self.client}"
        try:
            return Listener(settings, primary, channel, self._heard, self._is_needed)
        except RuntimeError:  # no thread is to be had: whoever waits looks by itself
            return None

    def forget(self, claim_id: str) -> None:
        with self._guard:
            self._rings.pop(claim_id[:_SHOWN], None)
            self._early.discard(claim_id[:_SHOWN])
            if not self._rings:
                self._unused_since = self._runtime.now()

    def _is_needed(self) -> bool:
        """Asked by the listener: whether anybody waits, or did until just now."""
        with self._guard:
            idle = self._unused_since
            needed = not self._closed and self.wakes
            needed = needed and (idle is None or self._runtime.now() < idle + LINGER)
            if not needed:
                self._listener = None
            return needed

    def _heard(self, shown: str) -> None:
        with self._guard:
            rings = list(self._rings.values()) if not shown else []
            if shown in self._rings:
                rings = [self._rings[shown]]
            elif shown:
                if len(self._early) >= _MOST_EARLY:  # of claims that were given up
                    self._early.clear()
                self._early.add(shown)
        for ring in rings:
            ring()

    async def ring(self, waiting: Sequence[tuple[str, str]]) -> None:
        elsewhere = []
        for client, claim_id in waiting:
            if client == self.client:
                self._heard(claim_id[:_SHOWN])
            else:
                elsewhere.append((client, claim_id[:_SHOWN]))
        if elsewhere and self.wakes:
            clients, claims = [list(each) for each in zip(*elsewhere, strict=True)]
            await self._questions.ask([Call(_NOTIFY, {"clients": clients, "claims": claims})])

    async def close(self) -> None:
        self.dropped()

    def dropped(self) -> None:
        with self._guard:
            self._closed = True
            listener, self._listener = self._listener, None
        if listener is not None:
            listener.stop()
