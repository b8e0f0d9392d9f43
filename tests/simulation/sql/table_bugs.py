"""Tables with a bug: what statements of lock tables get wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import ClassVar

from locknut.backends.sql import hold_records
from locknut.backends.sql.table_port import RAW_STEP, US, Extension, GiveBack, Row, Seen, Swap, Take
from tests.simulation.sql.database import PrunedSoon
from tests.simulation.sql.table_store import TableStore


def _numbered(store: TableStore, wanted: Take, before: Row, seen: Seen, raw: int) -> Seen:
    """The answer, with another number in place of one that was given for the first time."""
    if seen.row is None or seen.row.fence == before.fence:
        return seen
    records = [
        each._replace(raw=raw) if each.head == wanted.claim_id else each
        for each in hold_records.read(seen.row.holders)
    ]
    row = seen.row._replace(fence=raw, holders=hold_records.written(records))
    store.rows[wanted.key] = row
    return Seen(row, seen.now)


def _first(row: Row | None) -> str:
    """Who holds."""
    return next((each.head for each in hold_records.read(row.holders if row else "")), "")


class Hesitant(PrunedSoon):
    """No bug: its statements do nothing for readers, so that they do everything by swaps."""

    def _may_enter(self, row: Row, wanted: Take, now: int) -> bool:
        return wanted.mode != "s" and super()._may_enter(row, wanted, now)

    def _extend(self, hold: Extension, now: int) -> bool:
        return not self._is_read(hold.key) and super()._extend(hold, now)

    def _give_back(self, hold: GiveBack, now: int) -> Seen:
        return Seen(None, now) if self._is_read(hold.key) else super()._give_back(hold, now)

    def _is_read(self, key: bytes) -> bool:
        return key in self.rows and self.rows[key].company[:1] == "s"


class ExpiryFirst(PrunedSoon):
    """The upsert assigns the expiry first: the CASEs after it see a lock that is held, and give the
    number of who held it (S14).
    """

    def _entered(self, row: Row, wanted: Take, now: int) -> Row:
        return super()._entered(row._replace(expires=now + wanted.ttl), wanted, now)


class KeepsTheNumber(PrunedSoon):
    """Who takes over a hold that ran out gets its number."""

    def take(self, wanted: Take, now: int) -> Seen:
        row = self.rows.get(wanted.key)
        seen = super().take(wanted, now)
        if row is None or not row.holders:
            return seen
        return _numbered(self, wanted, row, seen, row.fence)


class NumbersOfTheSession(PrunedSoon):
    """The number is rolled back with the session that gave the lock back."""

    def take(self, wanted: Take, now: int) -> Seen:
        row = self.rows.get(wanted.key) or Row()
        seen = super().take(wanted, now)
        raw = row.fence + 1 if row.fence else now // RAW_STEP
        return _numbered(self, wanted, row, seen, raw)

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
        return _numbered(self, wanted, row, seen, row.fence + 1)


class NumberIsTheClock(PrunedSoon):
    """The time is the number: where the clock is set back, numbers go back."""

    def take(self, wanted: Take, now: int) -> Seen:
        row = self.rows.get(wanted.key) or Row()
        seen = super().take(wanted, now)
        return _numbered(self, wanted, row, seen, now // RAW_STEP)


class PrunesWhoWaits(PrunedSoon):
    """A row is deleted although somebody waits in it."""

    unused = 0

    def _is_idle(self, row: Row, now: int) -> bool:
        return not row.holders or row.expires <= now


class PrunesTombstones(PrunedSoon):
    """A row is deleted as soon as nobody holds or waits, with its tombstones."""

    def _is_idle(self, row: Row, now: int) -> bool:
        return not row.line and not row.holders


class PrunesGreaterNumbers(PrunedSoon):
    """A row is deleted although its number is above the clock: the next one is smaller."""

    def _is_idle(self, row: Row, now: int) -> bool:
        return not row.line and not row.others and not row.holders


class SwapsBlindly(Hesitant):
    """A swap does not compare."""

    def swap(self, swaps: Sequence[Swap]) -> bool:
        self.rows.update({each.key: each.row for each in swaps})
        return True


class GrantsOverTombstones(PrunedSoon):
    """`take` does not see a tombstone when it grants."""

    def take(self, wanted: Take, now: int) -> Seen:
        row = self.rows.get(wanted.key)
        if row is None or not row.others:
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
        if row is None or self._number(row, hold.claim_id, 0) is None:
            return False
        self.rows[hold.key] = self._prolonged(row, hold.claim_id, now + hold.ttl)
        return True


class LastRenewalCounts(PrunedSoon):
    """A renewal that waited for the row, and comes after a later one, sets an earlier end."""

    def _extend(self, hold: Extension, now: int) -> bool:
        done = super()._extend(hold, now)
        if done:
            row = self.rows[hold.key]
            records = [
                each._replace(expires=now + hold.ttl) if each.head == hold.claim_id else each
                for each in hold_records.read(row.holders)
            ]
            ends = max(each.expires for each in records)
            self.rows[hold.key] = row._replace(holders=hold_records.written(records), expires=ends)
        return done


class RenewsAnybody(PrunedSoon):
    """A renewal does not look who holds."""

    def _extend(self, hold: Extension, now: int) -> bool:
        row = self.rows.get(hold.key)
        return super()._extend(hold._replace(claim_id=_first(row)), now)


class KeepsTheFirstExpiry(PrunedSoon):
    """`take` finds its own grant again, but does not set the ttl anew (S8)."""

    def take(self, wanted: Take, now: int) -> Seen:
        row = self.rows.get(wanted.key)
        if row is not None and self._number(row, wanted.claim_id, now) is not None:
            return Seen(row, now)
        return super().take(wanted, now)


class FreesAnybody(PrunedSoon):
    """A `give_back` that comes late frees whoever holds by then."""

    def _give_back(self, hold: GiveBack, now: int) -> Seen:
        row = self.rows.get(hold.key)
        return super()._give_back(hold._replace(claim_id=_first(row)), now)


class LeavesByPrefix(PrunedSoon):
    """`leave` takes everybody out of the line whose id begins like this one."""

    def _leave(self, place: GiveBack, now: int) -> Seen:
        seen = super()._leave(place, now)
        if seen.row is None:
            return seen
        texts = [text for text in seen.row.line.split("\n") if text]
        line = "".join(f"{text}\n" for text in texts if not text.startswith(place.claim_id))
        row = self.rows[place.key] = seen.row._replace(line=line)
        return Seen(row, now)


class DeadSinceTheyCame(PrunedSoon):
    """A waiter is dead when it has waited for long: nobody looks for its note."""

    def living(self, clients: Sequence[str], longest: int, now: int) -> set[str]:
        return set()


class NeverDead(PrunedSoon):
    """A waiter is never taken for dead."""

    def living(self, clients: Sequence[str], longest: int, now: int) -> set[str]:
        return set(clients)


class BelievesTheFuture(PrunedSoon):
    """A note that a clock wrote which was set back since counts until the clock has passed it."""

    def living(self, clients: Sequence[str], longest: int, now: int) -> set[str]:
        return {each for each in clients if self.clients.get(each, 0) > now}


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


class StampsThatCount(Hesitant):
    """Each write counts on: after a failover another write may come to the same number."""

    def take(self, wanted: Take, now: int) -> Seen:
        with self._counting():
            super().take(wanted, now)
        return Seen(self.rows.get(wanted.key), now)

    def _extend(self, hold: Extension, now: int) -> bool:
        with self._counting():
            return super()._extend(hold, now)

    def _taken_out(self, row: Row, hold: GiveBack, now: int) -> Seen:
        with self._counting():
            super()._taken_out(row, hold, now)
        return Seen(self.rows[hold.key], now)

    def _leave(self, place: GiveBack, now: int) -> Seen:
        with self._counting():
            seen = super()._leave(place, now)
        return seen if seen.row is None else Seen(self.rows[place.key], now)

    def swap(self, swaps: Sequence[Swap]) -> bool:
        with self._counting():
            return super().swap(swaps)

    @contextmanager
    def _counting(self) -> Iterator[None]:
        before = dict(self.rows)
        yield
        for key, row in self.rows.items():
            known = before.get(key)
            if row is not known:
                self.rows[key] = row._replace(stamp=1 + (known.stamp if known else 0))
