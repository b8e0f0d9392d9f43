"""The table of locks as the recipe sees it: a few statements, each atomic and one round trip.

A lock is one row. What is decided in one statement, without looking first, is the common case: the
lock is free and nobody waits, or the claim that asks is the first in line; the holder renews, or
releases; a waiter joins the line or leaves it. Everything else (readers, permits, owners, detached
holds, tombstones) is decided in Python: read the row, change it, and `swap` it if nobody wrote
meanwhile. Each write gives the row a new random `stamp`, and that is what `swap` compares. A count
would not do: a replica that was promoted with an older state could come to the same number.

A statement has one clock, the database's, read once when the statement begins and given back with
its answer. A wait for the row's lock makes it too early, never too late: what has not run out by it
is left alone, and what it grants ends early, but never before the caller's own count, which begins
before the sending. Of two renewals that waited, the earlier may come last: so no renewal makes a
hold end sooner than it does already, because its holder may count on that.

Each dialect says these statements in SQL; `tests/simulation/sql` has them as plain Python, and a
test lets both do the same things and compares.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

US = 1_000_000
"""Times in the table are whole microseconds since the epoch, by the database's clock."""
RAW_STEP = 32
"""Microseconds to a step of the raw number."""
LOCK, PERMITS, CLIENT = b"l", b"p", b"c"
"""What a key in the table begins with: a lock, a semaphore of that name, a client that waits."""


class Row(NamedTuple):
    """One lock. Made by the first claim; kept when it is released, so that its number lives on."""

    fence: int = 0
    """The raw number of the latest grant."""
    stamp: int = 0
    """Another one after each write."""
    holder: str = ""
    """The claim id of the only hold; empty if there is none, or if `others` has several."""
    expires: int = 0
    """When that hold ends. It stays after a release, and means nothing where `holder` is empty."""
    facts: str = ""
    """What is known of the holder: see `lock_state`."""
    line: str = ""
    """Those who wait: a line of text each, `claim id, joined at, facts`, in the order they came."""
    others: str = ""
    """What is not simple: holds, tombstones, notes, as JSON; empty if there is none."""


class Seen(NamedTuple):
    """A row as a statement left it, and when that statement began."""

    row: Row | None
    now: int


class Take(NamedTuple):
    """What a claim that wants a key says."""

    key: bytes
    claim_id: str
    ttl: int
    """Microseconds."""
    facts: str
    queue: bool
    """Whether it joins the line if it is refused."""
    stamp: int
    """The row's new one."""


class Extension(NamedTuple):
    """A renewal of an only hold."""

    key: bytes
    claim_id: str
    ttl: int
    stamp: int


class GiveBack(NamedTuple):
    """A release of an only hold."""

    key: bytes
    claim_id: str
    stamp: int


class Swap(NamedTuple):
    """A row in place of the one that was read."""

    key: bytes
    stamp: int | None
    """Of the row that was read; None: there was no row."""
    row: Row


class Table(Protocol):
    """Statements on the table, in one colour.

    An error says whether the statement may have been done: `BackendUnavailable` if it may,
    `BackendError` if it was refused. A lock-wait or deadlock error undid the statement, and is
    tried again by the connection a few times before it becomes `BackendUnavailable`.
    """

    @property
    def inside(self) -> Callable[[], bool]:
        """Says whether the calling thread is in the middle of a statement: `Backend.inside`."""

    async def take(self, wanted: Take) -> Seen:
        """Take the key, or join its line; return the row after that.

        If the claim is the holder and its hold has not run out: set its full ttl again, unless it
        ends later already, and keep the number. Else, if `others` is empty, no hold has not run
        out, and the line is empty or begins with this claim: it becomes the holder, with its facts,
        its full ttl, and the number max(fence + 1, now / RAW_STEP); its place in line goes. Else,
        if it shall queue, is not in line yet, and its id stands nowhere in `others` (a tombstone):
        append it to the line with the time. Else change nothing at all, not even the stamp.

        Without a row: make one and take it.
        """

    async def take_all(self, wanted: Sequence[Take]) -> list[Seen] | None:
        """`take` of each, in one transaction: None, and nothing was done, if one is refused.

        None of them queues. They come sorted by key, so that two such calls cannot wait for each
        other.
        """

    async def extend(self, holds: Sequence[Extension]) -> list[bool]:
        """Set the full ttl of each, where the claim is the holder and has not run out; what ends
        later already stays so.

        One round trip, and in the order of their keys: two batches must not wait for each other.
        """

    async def give_back(self, holds: Sequence[GiveBack]) -> list[Seen]:
        """Empty `holder`, where the claim is the holder; the row as it is then, or None where the
        claim was not the holder. In one round trip.
        """

    async def leave(self, key: bytes, claim_id: str, stamp: int) -> Seen:
        """Take the claim out of the line; the row as it is then, or None if it was not in line."""

    async def read(self, keys: Sequence[bytes]) -> tuple[list[Row | None], int]:
        """The rows, from the primary, and a moment no later than any of them was read at."""

    async def swap(self, swaps: Sequence[Swap]) -> bool:
        """Write all the rows, in one transaction, if each still has the stamp that was read; else
        none. They come sorted by key.
        """

    async def scan(
        self, prefix: bytes, after: bytes, limit: int
    ) -> tuple[list[tuple[bytes, Row]], int]:
        """Rows whose key begins with the prefix and is greater than `after`, in order."""

    async def beat(self, client: str, ttl: int) -> None:
        """This client waits, and lives: note it for so long."""

    async def living(self, clients: Sequence[str]) -> set[str]:
        """Those of them whose note has not run out."""

    async def prune(self, limit: int) -> int:
        """Delete some rows of names that nobody has used for a day; return how many.

        Only where nobody holds or waits, `others` is empty, and the number is below the clock: the
        next grant must get a greater one (S11). By primary key, without waiting for rows that are
        locked (L13). Notes of clients that have run out go as well.
        """

    async def version(self) -> str:
        """Which database it is, and which version of it, for people."""

    async def close(self) -> None: ...

    def forked(self) -> None: ...

    def dropped(self) -> None: ...


class Bells(Protocol):
    """How a client that waits is woken, where the database can. A ring may be lost, or be false."""

    client: str
    """By which others ring this client: it stands in the rows. Another one after a fork."""

    @property
    def wakes(self) -> bool:
        """False: nobody is rung, and waits are paced."""

    def expect(self, key: bytes, claim_id: str, behind: str, ring: Callable[[], None]) -> None:
        """Have `ring` called when this waiter's turn may have come; `behind` is the claim id that
        is before it, a waiter's or the holder's. Called again when that changes.
        """

    def forget(self, claim_id: str) -> None:
        """It does not wait any more."""

    async def ring(self, waiting: Sequence[tuple[str, str]]) -> None:
        """Wake these: client and claim id of each. Those who are not rung look by themselves."""

    async def close(self) -> None:
        """Nobody waits here any more."""

    def forked(self) -> None:
        """In a forked child: let go of what was inherited, and be another client."""

    def dropped(self) -> None:
        """From any thread: nobody has the client any more, though it may not be closed."""
