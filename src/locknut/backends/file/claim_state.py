"""What this process knows of one claim: its descriptor, its ticket in the line, its hold."""

from __future__ import annotations

import threading
import weakref
from typing import Final

from locknut.backends.file import file_layout
from locknut.backends.file.bells import Bell
from locknut.backends.file.file_layout import (
    EXCLUSIVE,
    LOCK,
    OWNED,
    PERMIT,
    SHARED,
    WAITING,
    Record,
    assemble,
)
from locknut.backends.file.lock_files import LockFile
from locknut.backends.file.ofd_locks import WRITE, asked
from locknut.backends.file.this_process import ProcessIdentity, record_of
from locknut.core.values import Claim, Mode

ELSEWHERE: Final = 0
OUTSIDE: Final = 1
INSIDE: Final = 2
"""Where a claim is counted: nowhere, in the waiting room, or in the line."""
BARGE: Final = asked(WRITE, LOCK, 1)
_NOTHING: Final = bytes(16)
_ALONE: Final = Mode.EXCLUSIVE
_MODES: Final = {Mode.EXCLUSIVE: EXCLUSIVE, Mode.SHARED: SHARED, Mode.PERMIT: PERMIT}


class ClaimState:
    """One claim, from its first attempt to its release.

    Each command holds its mutex, because the keeper's thread may renew or release the claim while
    its caller still asks.
    """

    __slots__ = (
        "_bell",
        "claim",
        "counted",
        "file",
        "file_id",
        "former",
        "hung",
        "known",
        "mode",
        "mutex",
        "net",
        "owner_digest",
        "rang",
        "raw",
        "request",
        "reserved",
        "slot",
        "soon",
        "ticket",
        "used",
        "watched",
    )

    def __init__(self, claim: Claim, file: LockFile) -> None:
        self.claim = claim
        self.file = file
        self.mutex = threading.Lock()
        self.mode = EXCLUSIVE
        self.owner_digest = _NOTHING
        self.raw: int | None = None
        self.slot: int | None = None
        self.request = BARGE
        """Which lock an exclusive claim asks the kernel for: up to its ticket, once it has one."""
        self.reserved: float | None = None
        """How long a detached hold that was in the way has left."""
        self.ticket: int | None = None
        self.former: int | None = None
        """The ticket this claim had in a file that was removed meanwhile."""
        self._bell: weakref.ref[Bell] | None = None
        self.used: Bell | None = None
        """The bell of a waiter that has been woken; it is closed when there is time."""
        self.file_id = file.file_id
        self.counted = ELSEWHERE
        """Whether it is in the line, or in the waiting room."""
        self.hung: int | None = None
        """The ticket its bell is named after."""
        self.watched = False
        self.net = 0.0
        self.soon = 0.0
        """How long we waited last for a process that was stopped in the middle of a short
        change."""
        self.rang = 0.0
        """When this claim last rang others because it might have kept them out."""
        self.known = -1
        """The number of the last grant when we last went to sleep; no file has this one."""
        if claim.mode is not _ALONE or claim.owner is not None:
            self._beside_others(claim)

    @property
    def bell(self) -> Bell | None:
        """What the waiter sleeps on. Only the waiter keeps it alive: we must not keep a task whose
        loop was closed.
        """
        return None if self._bell is None else self._bell()

    def watch(self, bell: Bell | None) -> None:
        self._bell = None if bell is None else weakref.ref(bell)
        self.watched = bell is not None
        self.hung = None

    def _beside_others(self, claim: Claim) -> None:
        self.mode = _MODES[claim.mode]
        if claim.owner is not None and claim.mode is Mode.EXCLUSIVE:
            self.mode = OWNED
            self.owner_digest = file_layout.digest(claim.owner)

    def encode_exclusive(self, mode: int, raw: int, now: int, me: ProcessIdentity) -> bytes:
        """Return the encoded record of an exclusive grant, or of a waiter for one."""
        claim, kept = self.claim, _parts[mode]
        who = claim.who
        found = kept.get(who)
        if found is None or found[0] is not me or found[1] != claim.label:
            if len(kept) >= _MOST_PARTS:
                kept.clear()
            plain = record_of(claim, mode, _NOTHING, 0, 0, me)
            found = kept[who] = (me, claim.label, *file_layout.parts(plain))
        return assemble(found[2], raw, now // 1000, found[3])

    def encode(self, mode: int, raw: int, now: int, me: ProcessIdentity) -> bytes:
        """Return the encoded record of any claim."""
        return file_layout.encode(self.record(mode, raw, now, me))

    def record(self, mode: int, raw: int, now: int, me: ProcessIdentity) -> Record:
        return record_of(self.claim, mode, self.owner_digest, raw, now, me)


_parts: Final[dict[int, dict[str, tuple[ProcessIdentity, str, bytes, bytes]]]] = {
    EXCLUSIVE: {},
    WAITING: {},
}
"""The parts of a record that are the same for all claims of one thread or task, by its name."""
_MOST_PARTS: Final = 512
