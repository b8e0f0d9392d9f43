"""What the statements of `locknut.backends.sql.table_port` do, as plain Python: the reference.

The databases are compared with it (`tests/backends/sql`), and the simulator runs the recipe on it.
Pure: the clock comes with every call.
"""

from __future__ import annotations

from collections.abc import Sequence

from locknut.backends.sql import hold_records
from locknut.backends.sql.hold_records import DIGITS, HoldRecord
from locknut.backends.sql.table_port import (
    RAW_STEP,
    US,
    Extension,
    GiveBack,
    Row,
    Seen,
    Swap,
    Take,
)

DAY = 86400 * US


class TableStore:
    """The rows of one table, by their keys; `clients` has until when each is known to live."""

    unused = DAY
    """After so long without use a row may be deleted."""

    def __init__(self) -> None:
        self.rows: dict[bytes, Row] = {}
        self.clients: dict[str, int] = {}

    def take(self, wanted: Take, now: int) -> Seen:
        row = self.rows.get(wanted.key) or Row()
        if self._number(row, wanted.claim_id, now) is not None:
            row = self._prolonged(row, wanted.claim_id, now + wanted.ttl)
        elif self._may_enter(row, wanted, now):
            row = self._entered(row, wanted, now)
        elif wanted.queue and self._may_join(row, wanted):
            row = row._replace(line=f"{row.line}{wanted.claim_id} {now} {wanted.facts}\n")
        else:
            return Seen(self.rows.get(wanted.key), now)
        row = self.rows[wanted.key] = row._replace(stamp=wanted.stamp)
        return Seen(row, now)

    def _number(self, row: Row, claim_id: str, now: int) -> int | None:
        """Of the claim's own hold, if it has one that has not run out."""
        for record in hold_records.read(row.holders):
            if record.head == claim_id and record.expires > now:
                return record.raw
        return None

    def _prolonged(self, row: Row, claim_id: str, end: int) -> Row:
        records = [
            each._replace(expires=max(each.expires, end)) if each.head == claim_id else each
            for each in hold_records.read(row.holders)
        ]
        return row._replace(holders=hold_records.written(records), expires=max(row.expires, end))

    def _may_enter(self, row: Row, wanted: Take, now: int) -> bool:
        held = _held(row, now)
        if wanted.claim_id in row.others or (held and wanted.claim_id in row.holders):
            return False
        place, texts = _place(row.line, wanted.claim_id), _lines(row.line)
        ahead = texts if place is None else texts[:place]
        if wanted.mode == "p":
            holders = len(_lines(row.holders)) if held else 0
            return holders + len(ahead) < wanted.permits
        if wanted.mode == "s":
            return (not held or row.company[:1] == "s") and not any(
                text.split(" ", 2)[2].startswith('["e",') for text in ahead
            )
        if held:
            return wanted.owner != "" and row.company[1:] == wanted.owner
        return not ahead

    def _entered(self, row: Row, wanted: Take, now: int) -> Row:
        held = _held(row, now)
        records = list(hold_records.read(row.holders)) if held else []
        raw = max(row.fence + 1, now // RAW_STEP)
        if held and wanted.mode == "e":
            raw = records[0].raw
        company, end = wanted.mode + wanted.owner, now + wanted.ttl
        if held:
            mode = wanted.mode if row.company[:1] == wanted.mode else "e"
            company = mode + (wanted.owner if row.company[1:] == wanted.owner else "")
            end = max(end, row.expires)
        records.append(HoldRecord(wanted.claim_id, now + wanted.ttl, raw, wanted.facts))
        line = _without(row.line, wanted.claim_id)
        holders = hold_records.written(records)
        return Row(max(row.fence, raw), 0, holders, company, end, line, row.others)

    def _may_join(self, row: Row, wanted: Take) -> bool:
        own = any(each.head == wanted.claim_id for each in hold_records.read(row.holders))
        return (
            _place(row.line, wanted.claim_id) is None
            and wanted.claim_id not in row.others
            and (own or wanted.claim_id not in row.holders)
        )

    def take_all(self, wanted: Sequence[Take], now: int) -> list[Seen] | None:
        before = dict(self.rows)
        found = [self.take(each, now) for each in wanted]
        for each, seen in zip(wanted, found, strict=True):
            if hold_records.number_of(seen, each.claim_id) is None:
                self.rows = before
                return None
        return found

    def extend(self, holds: Sequence[Extension], now: int) -> list[bool]:
        return [self._extend(hold, now) for hold in holds]

    def _extend(self, hold: Extension, now: int) -> bool:
        row = self.rows.get(hold.key)
        if row is None or self._number(row, hold.claim_id, now) is None:
            return False
        row = self._prolonged(row, hold.claim_id, now + hold.ttl)
        self.rows[hold.key] = row._replace(stamp=hold.stamp)
        return True

    def give_back(self, holds: Sequence[GiveBack], now: int) -> list[Seen]:
        return [self._give_back(hold, now) for hold in holds]

    def _give_back(self, hold: GiveBack, now: int) -> Seen:
        row = self.rows.get(hold.key)
        if row is None or self._number(row, hold.claim_id, now) is None:
            return Seen(None, now)
        return self._taken_out(row, hold, now)

    def sweep(self, holds: Sequence[GiveBack], now: int) -> list[Seen]:
        return [self._sweep(hold, now) for hold in holds]

    def _sweep(self, hold: GiveBack, now: int) -> Seen:
        row = self.rows.get(hold.key) or Row()
        records = hold_records.read(row.holders)
        ends = [each.expires for each in records if each.head == hold.claim_id]
        if not ends or max(ends) > now:
            return Seen(None, now)
        return self._taken_out(row, hold, now)

    def _taken_out(self, row: Row, hold: GiveBack, now: int) -> Seen:
        holders = _without(row.holders, hold.claim_id)
        row = self.rows[hold.key] = row._replace(holders=holders, stamp=hold.stamp)
        return Seen(row, now)

    def leave(self, places: Sequence[GiveBack], now: int) -> list[Seen]:
        return [self._leave(place, now) for place in places]

    def _leave(self, place: GiveBack, now: int) -> Seen:
        row = self.rows.get(place.key)
        if row is None or _place(row.line, place.claim_id) is None:
            return Seen(None, now)
        line = _without(row.line, place.claim_id)
        row = self.rows[place.key] = row._replace(line=line, stamp=place.stamp)
        return Seen(row, now)

    def read(self, keys: Sequence[bytes], now: int) -> tuple[list[Row | None], int]:
        return [self.rows.get(key) for key in keys], now

    def swap(self, swaps: Sequence[Swap]) -> bool:
        for each in swaps:
            there = self.rows.get(each.key)
            if (None if there is None else there.stamp) != each.stamp:
                return False
        self.rows.update({each.key: each.row for each in swaps})
        return True

    def scan(
        self, prefix: bytes, after: bytes, limit: int, now: int
    ) -> tuple[list[tuple[bytes, Row]], int]:
        keys = sorted(key for key in self.rows if key.startswith(prefix) and key > after)
        return [(key, self.rows[key]) for key in keys[:limit]], now

    def beat(self, client: str, ttl: int, now: int) -> None:
        self.clients[client] = now + ttl

    def living(self, clients: Sequence[str], longest: int, now: int) -> set[str]:
        return {each for each in clients if now < self.clients.get(each, 0) <= now + longest}

    def prune(self, limit: int, now: int) -> int:
        idle = [key for key, row in self.rows.items() if self._is_idle(row, now)][:limit]
        for key in idle:
            del self.rows[key]
        self.clients = {each: until for each, until in self.clients.items() if until > now}
        return len(idle)

    def _is_idle(self, row: Row, now: int) -> bool:
        """Nobody holds or waits, and its number is old: the next one will be greater."""
        empty = not row.line and not _held(row, now) and row.others < f"{now:0{DIGITS}}"
        old = now - self.unused
        return empty and row.fence * RAW_STEP < old and row.expires < old


def _held(row: Row, now: int) -> bool:
    return row.holders != "" and row.expires > now


def _lines(text: str) -> list[str]:
    return [each for each in text.split("\n") if each]


def _place(line: str, claim_id: str) -> int | None:
    """How many stand before this claim; None if it is not in line."""
    ids = [text.split(" ", 1)[0] for text in _lines(line)]
    return ids.index(claim_id) if claim_id in ids else None


def _without(text: str, head: str) -> str:
    """Without the line that begins so."""
    return "".join(f"{each}\n" for each in _lines(text) if not each.startswith(f"{head} "))
