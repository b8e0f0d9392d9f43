"""The table of locks as the recipe sees it: a few statements, each atomic and one round trip.

A lock is one row. Whoever asks, renews, releases or leaves the line does it by one statement, which
decides without looking first: alone, or beside readers, holders of permits, or others of its owner.
So each gets on whatever the others do meanwhile, however slow its own way to the database is. What
is rare (tombstones, detached holds, a break) is decided in Python: read the row, change it, and
`swap` it if nobody wrote meanwhile. Each write gives the row a new random `stamp`, and that is what
`swap` compares. A count would not do: a replica that was promoted with an older state could come to
the same number.

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
ANY = "*"
"""In place of a claim id: a waiter is behind several holders, and any of them may make room."""


class Row(NamedTuple):
    """One lock. Made by the first claim; kept when it is released, so that its number lives on."""

    fence: int = 0
    """The raw number of the latest grant."""
    stamp: int = 0
    """Another one after each write."""
    holders: str = ""
    """Those who hold: a line of text each, in the order they came. See `hold_records`."""
    company: str = ""
    """Who may come in beside them: how all of them hold (e, s or p; e also if they differ), and
    behind that their owner, if they have one and it is the same for all."""
    expires: int = 0
    """None of these holds ends later. It stays after a release, and means nothing where there are
    no holders."""
    line: str = ""
    """Those who wait: a line of text each, `claim id, joined at, facts`, in the order they came."""
    others: str = ""
    """What is rare: tombstones and notes as JSON, and before that until when any of it matters, in
    as many digits as in `holders`; empty if there is none."""


class Joined(NamedTuple):
    """Where a claim stands that has just joined the line of a lock that is held."""

    behind: str
    """The claim before it: a waiter, or the holder. The beginning of its id is enough."""
    place: int
    """So many are before it in line; 2 may be more."""
    free_in: int
    """Microseconds until the hold ends, or a second if that is later."""


class Seen(NamedTuple):
    """A row as a statement left it, and when that statement began. A database that answers by a
    number has no row at hand, and says what matters of it.
    """

    row: Row | None
    now: int
    joined: Joined | None = None
    """What `take` did, where no row tells it."""
    first_in_line: str = ""
    """Where no row tells it, and there may be room for it now. The beginning of its id will do."""


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
    mode: str = "e"
    """How it holds: e (exclusive), s (shared) or p (a permit)."""
    owner: str = ""
    """Whose it is, as JSON; empty: nobody's."""
    permits: int = 1
    """So many may hold a permit."""


class Extension(NamedTuple):
    """A renewal of a hold."""

    key: bytes
    claim_id: str
    ttl: int
    stamp: int


class GiveBack(NamedTuple):
    """A release of a hold, or of a place in line."""

    key: bytes
    claim_id: str
    stamp: int
    alone: bool = False
    """Whether nobody else is likely to hold: the claim is exclusive, and has no owner."""


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

        The lock is held if there are holders and `expires` has not come. A holder's own end is
        another matter: of several, some may have run out.

        If the claim has a hold that has not run out: set its full ttl again, unless it ends later
        already, and keep its number.

        Else it enters if it may, if its id stands nowhere in `others` (a tombstone), nor among the
        holders of a lock that is held. It may enter, where `ahead` are those before it in line, or
        all of them if it is not in line:
        * exclusive: if the lock is not held and nobody is ahead; or if it is held by its owner's;
        * shared: if the lock is not held, or is by readers, and nobody but readers is ahead;
        * with a permit: if holders and those ahead are fewer than the permits. Holders that have
          run out count, as long as the lock is held: `sweep` removes them.
        It gets the number max(fence + 1, now / RAW_STEP); beside others of its owner, that of the
        first of them. What is left of a lock that is not held goes, and so does its place in line.

        Else, if it shall queue, is not in line yet, and its id stands neither in `others` nor among
        the holders (but for a hold of its own that has run out): append it to the line with the
        time. Else change nothing at all, not even the stamp.

        Without a row it is as if there were an empty one.
        """

    async def take_all(self, wanted: Sequence[Take]) -> list[Seen] | None:
        """`take` of each, in one transaction: None, and nothing was done, if one is refused.

        None of them queues. They come sorted by key, so that two such calls cannot wait for each
        other.
        """

    async def extend(self, holds: Sequence[Extension]) -> list[bool]:
        """Set the full ttl of each, where the claim has a hold that has not run out; what ends
        later already stays so.

        One round trip, and in the order of their keys: two batches must not wait for each other.
        """

    async def give_back(self, holds: Sequence[GiveBack]) -> list[Seen]:
        """Take each out of the holders, where it has not run out; the row as it is then, or None
        where nothing was found. In one round trip.
        """

    async def sweep(self, holds: Sequence[GiveBack]) -> list[Seen]:
        """Take each out of the holders, where it has run out, whosoever it was; the row as it is
        then, or None where nothing was found. In one round trip.
        """

    async def leave(self, places: Sequence[GiveBack]) -> list[Seen]:
        """Take each out of the line; the row as it is then, or None where it was not in line. In
        one round trip.
        """

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

    async def living(self, clients: Sequence[str], longest: int) -> set[str]:
        """Those of them whose note has not run out, and does not last for longer than this: such a
        one was written by a clock that was set back since.
        """

    async def prune(self, limit: int) -> int:
        """Delete some rows of names that nobody has used for a day; return how many.

        Only where nobody holds or waits, nothing in `others` matters, and the number is below the
        clock: the next grant must get a greater one (S11). By primary key, without waiting for
        rows that are locked (L13). Notes of clients that have run out go as well.
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
        is before it, a waiter's or the holder's, or `ANY`. Called again when that changes.
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
