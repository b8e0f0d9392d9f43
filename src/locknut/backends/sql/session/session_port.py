"""What session mode needs of a database: sessions, and exclusive locks that belong to them.

The server has a lock of ours for each name, the gate: whoever wants in takes it first, and whoever
holds the name alone keeps it. A reader has a lock of its own besides, and leaves the gate open for
the next one. A writer that has the gate waits for the readers' own locks. So one kind of lock will
do, which every database has, and nobody overtakes a writer that waits.

A lock is 16 bytes here, a digest. The server may make a shorter number of it: if two names came to
the same one, they would wait for each other, and nothing worse, because the row decides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Protocol

from locknut.backends.sql.row_changes import key_of
from locknut.backends.sql.table_port import GiveBack, Seen, Take
from locknut.core.values import Claim, Mode


def gate_of(place: str, claim: Claim) -> bytes:
    """The lock that stands for a name in this table."""
    return _digest(place, key_of(claim))


def lock_of(place: str, claim: Claim) -> bytes:
    """The lock that a holder keeps: the gate, or a reader's own."""
    if claim.mode is Mode.EXCLUSIVE:
        return gate_of(place, claim)
    return _digest(place, b"r" + claim.id.encode())


def _digest(place: str, what: bytes) -> bytes:
    return blake2b(place.encode() + b"\0" + what, digest_size=16).digest()


class LockSession(Protocol):
    """One session with the server, for one claim. After any error it is dropped."""

    number: int
    """By which the server, and others, know it."""
    longest_wait: float
    """Seconds after which the server ends a wait by itself."""

    def fileno(self) -> int: ...

    def alive(self) -> bool:
        """Whether the server has not hung up, as far as is known here. Only while it is idle."""

    async def enter(self, gate: bytes, own: bytes | None, wanted: Take) -> tuple[bool, Seen | None]:
        """Take a reader's own lock, and the gate, if they are free; and if they were, take the row.
        Whether they were, and the row then. In one round trip, but each step by itself.
        """

    async def take(self, wanted: Take) -> Seen | None:
        """The row alone; the gate is ours already. None: look at it again."""

    async def give_back(self, hold: GiveBack) -> Seen:
        """The row, and when that is committed, all locks."""

    async def keep(self, lock: bytes) -> bool:
        """Have this lock as well; False if another session has it."""

    async def free(self, lock: bytes | None) -> None:
        """This one lock, or all."""

    async def wait(self, lock: bytes) -> None:
        """Begin to wait for a lock; something arrives when there is an end to it."""

    async def waited(self) -> bool | None:
        """Whether it has the lock now. None: it still waits. False: the server waits no longer."""

    async def stopped(self, seconds: float) -> bool:
        """Whether a wait that was interrupted has come to its end, after so long at most."""

    def back(self) -> None:
        """It has no lock any more, and is free for another claim."""

    def drop(self) -> None:
        """Close it, and with it goes whatever it has."""

    def cut(self) -> None:
        """The same while somebody else uses it, who will drop it."""


class LockSessions(Protocol):
    """The way of one client to them, in one colour."""

    place: str
    """Names the table, among all that share the server's locks."""

    @property
    def inside(self) -> Callable[[], bool]: ...

    async def open(self) -> LockSession:
        """`BackendUnavailable`, if all that there may be are in use."""

    async def owners(self, locks: Sequence[bytes]) -> dict[bytes, int]:
        """Which session has each of these; those that nobody has are left out."""

    async def interrupt(self, number: int, lock: bytes) -> None:
        """Have a session of ours stop waiting for this lock.

        Here and in `end` the number may have been read long ago, and be somebody else's by now. So
        the same statement looks whether that session still waits for the lock, or has it.
        """

    async def end(self, number: int, lock: bytes) -> None:
        """End the session that has this lock, or waits for it, if it is this one."""

    def close(self) -> None: ...

    def forked(self) -> None: ...
