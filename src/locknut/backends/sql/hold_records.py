"""The holds of a lock as its row has them: a line of text each, in the order they came.

A line is `claim id, when it ends, number, facts`, and the two numbers are always of the same width.
So one statement can add a hold, give it a new end, or take it out, beside any others. A detached
hold's line begins with a mark: no late statement finds it by its claim id.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from locknut.backends.sql.table_port import Seen

DETACHED: Final = "="
DIGITS: Final = 16
"""Of a time in microseconds until the year 2286, and of a raw number for longer."""


class HoldRecord(NamedTuple):
    """One line."""

    head: str
    """The claim id; with the mark before it, if the hold is detached."""
    expires: int
    raw: int
    facts: str

    @property
    def claim_id(self) -> str:
        return self.head.removeprefix(DETACHED)

    @property
    def detached(self) -> bool:
        return self.head.startswith(DETACHED)

    def __str__(self) -> str:
        return f"{self.head} {self.expires:0{DIGITS}} {self.raw:0{DIGITS}} {self.facts}\n"


def written(records: Iterable[HoldRecord]) -> str:
    return "".join(map(str, records))


def read(holders: str) -> Iterator[HoldRecord]:
    for text in filter(None, holders.split("\n")):
        head, expires, raw, facts = text.split(" ", 3)
        yield HoldRecord(head, int(expires), int(raw), facts)


def number_of(seen: Seen, claim_id: str) -> int | None:
    """The number of the claim's hold, if it has one: read back, never believed from a count (S14).
    None also if the hold has run out, or is detached.
    """
    if seen.row is None:
        return None
    holders = seen.row.holders
    begins = f"\n{holders}".find(f"\n{claim_id} ")
    if begins < 0:
        return None
    ends = begins + len(claim_id) + 1
    if int(holders[ends : ends + DIGITS]) <= seen.now:
        return None
    return int(holders[ends + DIGITS + 1 : ends + 2 * DIGITS + 1])
