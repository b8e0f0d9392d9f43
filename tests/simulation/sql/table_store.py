"""What the statements of `locknut.backends.sql.table_port` do, as plain Python: the reference.

The databases are compared with it (`tests/backends/sql`), and the simulator runs the recipe on it.
Pure: the clock comes with every call.
"""

from __future__ import annotations

from collections.abc import Sequence

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
        row = self.rows.get(wanted.key)
        if row is None:
            row = Row()
        place = _place(row.line, wanted.claim_id)
        held = bool(row.holder) and row.expires > now
        if held and row.holder == wanted.claim_id:
            ends = max(row.expires, now + wanted.ttl)
            row = row._replace(expires=ends, stamp=wanted.stamp)
        elif not held and not row.others and (not row.line or place == 0):
            raw = max(row.fence + 1, now // RAW_STEP)
            line = row.line.partition("\n")[2]
            row = Row(raw, wanted.stamp, wanted.claim_id, now + wanted.ttl, wanted.facts, line)
        elif wanted.queue and place is None and wanted.claim_id not in row.others:
            line = f"{row.line}{wanted.claim_id} {now} {wanted.facts}\n"
            row = row._replace(line=line, stamp=wanted.stamp)
        else:
            return Seen(self.rows.get(wanted.key), now)
        self.rows[wanted.key] = row
        return Seen(row, now)

    def take_all(self, wanted: Sequence[Take], now: int) -> list[Seen] | None:
        before = dict(self.rows)
        found = [self.take(each, now) for each in wanted]
        for each, seen in zip(wanted, found, strict=True):
            row = seen.row
            if row is None or row.holder != each.claim_id or row.expires <= now:
                self.rows = before
                return None
        return found

    def extend(self, holds: Sequence[Extension], now: int) -> list[bool]:
        return [self._extend(hold, now) for hold in holds]

    def _extend(self, hold: Extension, now: int) -> bool:
        row = self.rows.get(hold.key)
        if row is None or row.holder != hold.claim_id or row.expires <= now:
            return False
        ends = max(row.expires, now + hold.ttl)
        self.rows[hold.key] = row._replace(expires=ends, stamp=hold.stamp)
        return True

    def give_back(self, holds: Sequence[GiveBack], now: int) -> list[Seen]:
        return [self._give_back(hold, now) for hold in holds]

    def _give_back(self, hold: GiveBack, now: int) -> Seen:
        row = self.rows.get(hold.key)
        if row is None or row.holder != hold.claim_id:
            return Seen(None, now)
        row = self.rows[hold.key] = row._replace(holder="", facts="", stamp=hold.stamp)
        return Seen(row, now)

    def leave(self, key: bytes, claim_id: str, stamp: int, now: int) -> Seen:
        row = self.rows.get(key)
        if row is None or _place(row.line, claim_id) is None:
            return Seen(None, now)
        texts = [text for text in row.line.split("\n") if text]
        line = "".join(f"{text}\n" for text in texts if not text.startswith(f"{claim_id} "))
        row = self.rows[key] = row._replace(line=line, stamp=stamp)
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

    def living(self, clients: Sequence[str], now: int) -> set[str]:
        return {client for client in clients if self.clients.get(client, 0) > now}

    def prune(self, limit: int, now: int) -> int:
        idle = [key for key, row in self.rows.items() if self._is_idle(row, now)][:limit]
        for key in idle:
            del self.rows[key]
        self.clients = {each: until for each, until in self.clients.items() if until > now}
        return len(idle)

    def _is_idle(self, row: Row, now: int) -> bool:
        """Nobody holds or waits, and its number is old: the next one will be greater."""
        empty = not row.line and not row.others and (not row.holder or row.expires <= now)
        old = now - self.unused
        return empty and row.fence * RAW_STEP < old and row.expires < old


def _place(line: str, claim_id: str) -> int | None:
    """How many stand before this claim; None if it is not in line."""
    ids = [text.split(" ", 1)[0] for text in line.split("\n") if text]
    return ids.index(claim_id) if claim_id in ids else None
