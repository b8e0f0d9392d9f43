"""Tables with a bug: what statements of lock tables get wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from locknut.backends.sql.table_port import RAW_STEP, US, Extension, GiveBack, Row, Seen, Swap, Take
from tests.simulation.sql.database import PrunedSoon

_ONLY_GRAVES = '{"graves"'


class ExpiryFirst(PrunedSoon):
    """The upsert assigns the expiry first: the CASEs after it see a hold that has not run out
    (S14).
    """

    def take(self, wanted: Take, now: int) -> Seen:
        row = self.rows.get(wanted.key)
        before = row.holder if row is not None else ""
        seen = super().take(wanted, now)
        if row is None or seen.row is None or not before or seen.row.holder == before:
            return seen
        late = row._replace(expires=seen.row.expires, stamp=wanted.stamp)
        self.rows[wanted.key] = late
        return Seen(late, now)


class KeepsTheNumber(PrunedSoon):
    """Who takes over a hold that ran out gets its number."""

    def take(self, wanted: Take, now: int) -> Seen:
        row = self.rows.get(wanted.key)
        seen = super().take(wanted, now)
        if row is None or seen.row is None or not row.holder or seen.row.fence == row.fence:
            return seen
        kept = self.rows[wanted.key] = seen.row._replace(fence=row.fence)
        return Seen(kept, now)


class NumbersOfTheSession(PrunedSoon):
    """The number is rolled back with the session that gave the lock back."""

    def take(self, wanted: Take, now: int) -> Seen:
        row = self.rows.get(wanted.key) or Row()
        seen = super().take(wanted, now)
        if seen.row is None or seen.row.fence == row.fence:
            return seen
        raw = row.fence + 1 if row.fence else now // RAW_STEP
        counted = self.rows[wanted.key] = seen.row._replace(fence=raw)
        return Seen(counted, now)

    def _give_back(self, hold: GiveBack, now: int) -> Seen:
        seen = super()._give_back(hold, now)
        if seen.row is not None:
            seen = Seen(seen.row._replace(fence=seen.row.fence - 1), now)
            self.rows[hold.key] = seen.row or Row()
        return seen


class CountsWithoutAClock(PrunedSoon):
    """The number only counts: an older state counts the same numbers once more."""

    def take(self, wanted: Take, now: int) -> Seen:
        row = self.rows.get(wanted.key) or Row()
        seen = super().take(wanted, now)
        if seen.row is None or seen.row.fence == row.fence:
            return seen
        counted = self.rows[wanted.key] = seen.row._replace(fence=row.fence + 1)
        return Seen(counted, now)


class NumberIsTheClock(PrunedSoon):
    """The time is the number: where the clock is set back, numbers go back."""

    def take(self, wanted: Take, now: int) -> Seen:
        row = self.rows.get(wanted.key) or Row()
        seen = super().take(wanted, now)
        if seen.row is None or seen.row.fence == row.fence:
            return seen
        counted = self.rows[wanted.key] = seen.row._replace(fence=now // RAW_STEP)
        return Seen(counted, now)


class PrunesWhoWaits(PrunedSoon):
    """A row is deleted although somebody waits in it."""

    unused = 0

    def _is_idle(self, row: Row, now: int) -> bool:
        return '"holders"' not in row.others and (not row.holder or row.expires <= now)


class PrunesTombstones(PrunedSoon):
    """A row is deleted as soon as nobody holds or waits, with its tombstones."""

    def _is_idle(self, row: Row, now: int) -> bool:
        return not row.line and '"holders"' not in row.others and not row.holder


class PrunesGreaterNumbers(PrunedSoon):
    """A row is deleted although its number is above the clock: the next one is smaller."""

    def _is_idle(self, row: Row, now: int) -> bool:
        return not row.line and not row.others and not row.holder


class StampsThatCount(PrunedSoon):
    """Each write counts on: after a failover another write may come to the same number."""

    def _write(self, key: bytes, before: Row | None) -> None:
        row = self.rows.get(key)
        if row is not None and row is not before:
            self.rows[key] = row._replace(stamp=1 + (before.stamp if before else 0))

    def take(self, wanted: Take, now: int) -> Seen:
        before = self.rows.get(wanted.key)
        super().take(wanted, now)
        self._write(wanted.key, before)
        return Seen(self.rows.get(wanted.key), now)

    def _extend(self, hold: Extension, now: int) -> bool:
        before = self.rows.get(hold.key)
        done = super()._extend(hold, now)
        self._write(hold.key, before)
        return done

    def _give_back(self, hold: GiveBack, now: int) -> Seen:
        before = self.rows.get(hold.key)
        seen = super()._give_back(hold, now)
        self._write(hold.key, before)
        return seen if seen.row is None else Seen(self.rows[hold.key], now)

    def leave(self, key: bytes, claim_id: str, stamp: int, now: int) -> Seen:
        before = self.rows.get(key)
        seen = super().leave(key, claim_id, stamp, now)
        self._write(key, before)
        return seen if seen.row is None else Seen(self.rows[key], now)

    def swap(self, swaps: Sequence[Swap]) -> bool:
        before = {each.key: self.rows.get(each.key) for each in swaps}
        done = super().swap(swaps)
        for key, row in before.items():
            self._write(key, row)
        return done


class SwapsBlindly(PrunedSoon):
    """A swap does not compare."""

    def swap(self, swaps: Sequence[Swap]) -> bool:
        self.rows.update({each.key: each.row for each in swaps})
        return True


class GrantsOverTombstones(PrunedSoon):
    """`take` does not see a tombstone when it grants."""

    def take(self, wanted: Take, now: int) -> Seen:
        row = self.rows.get(wanted.key)
        if row is None or not row.others.startswith(_ONLY_GRAVES):
            return super().take(wanted, now)
        self.rows[wanted.key] = row._replace(others="")
        seen = super().take(wanted, now)
        kept = self.rows[wanted.key] = self.rows[wanted.key]._replace(others=row.others)
        return Seen(kept, seen.now)


class QueuesOverTombstones(PrunedSoon):
    """`take` does not see a tombstone when it lets somebody join the line."""

    def take(self, wanted: Take, now: int) -> Seen:
        seen = super().take(wanted, now)
        row = seen.row
        if row is None or not wanted.queue or wanted.claim_id in row.line:
            return seen
        if wanted.claim_id in row.others.partition('"graves"')[2]:
            line = f"{row.line}{wanted.claim_id} {now} {wanted.facts}\n"
            row = self.rows[wanted.key] = row._replace(line=line, stamp=wanted.stamp)
        return Seen(row, now)


class Revives(PrunedSoon):
    """A renewal does not look whether the hold has run out."""

    def _extend(self, hold: Extension, now: int) -> bool:
        row = self.rows.get(hold.key)
        if row is None or row.holder != hold.claim_id:
            return False
        self.rows[hold.key] = row._replace(expires=now + hold.ttl, stamp=hold.stamp)
        return True


class LastRenewalCounts(PrunedSoon):
    """A renewal that waited for the row, and comes after a later one, sets an earlier end."""

    def _extend(self, hold: Extension, now: int) -> bool:
        done = super()._extend(hold, now)
        if done:
            row = self.rows[hold.key]
            self.rows[hold.key] = row._replace(expires=now + hold.ttl)
        return done


class RenewsAnybody(PrunedSoon):
    """A renewal does not look who holds."""

    def _extend(self, hold: Extension, now: int) -> bool:
        row = self.rows.get(hold.key)
        return super()._extend(hold._replace(claim_id=row.holder if row else ""), now)


class KeepsTheFirstExpiry(PrunedSoon):
    """`take` finds its own grant again, but does not set the ttl anew (S8)."""

    def take(self, wanted: Take, now: int) -> Seen:
        row = self.rows.get(wanted.key)
        if row is not None and row.holder == wanted.claim_id and row.expires > now:
            return Seen(row, now)
        return super().take(wanted, now)


class FreesAnybody(PrunedSoon):
    """A `give_back` that comes late frees whoever holds by then."""

    def _give_back(self, hold: GiveBack, now: int) -> Seen:
        row = self.rows.get(hold.key)
        return super()._give_back(hold._replace(claim_id=row.holder if row else ""), now)


class LeavesByPrefix(PrunedSoon):
    """`leave` takes everybody out of the line whose id begins like this one."""

    def leave(self, key: bytes, claim_id: str, stamp: int, now: int) -> Seen:
        seen = super().leave(key, claim_id, stamp, now)
        if seen.row is None:
            return seen
        texts = [text for text in seen.row.line.split("\n") if text]
        line = "".join(f"{text}\n" for text in texts if not text.startswith(claim_id))
        row = self.rows[key] = seen.row._replace(line=line)
        return Seen(row, now)


class DeadSinceTheyCame(PrunedSoon):
    """A waiter is dead when it has waited for long: nobody looks for its note."""

    def living(self, clients: Sequence[str], now: int) -> set[str]:
        return set()


class NeverDead(PrunedSoon):
    """A waiter is never taken for dead."""

    def living(self, clients: Sequence[str], now: int) -> set[str]:
        return set(clients)


class TransactionClock(PrunedSoon):
    """The time of a statement is the time at which its transaction began, which was before it was
    sent: the lease is shorter than believed.
    """

    begun = 0
    lasts: ClassVar[int] = 2 * US

    def take(self, wanted: Take, now: int) -> Seen:
        if now - self.begun > self.lasts or now < self.begun:
            self.begun = now
        return super().take(wanted, self.begun)
