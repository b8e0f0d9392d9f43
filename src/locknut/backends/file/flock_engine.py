"""The flock engine, for systems without open-file-description locks (macOS, Windows).

Every name has one file with one lock, exclusive or shared, by `flock`. There is no line and no
bell: a refused claim asks again after a while. The engine declares fewer capabilities, so nothing
is silently weaker. A lock of this engine and one of the other do not see each other, so its files
have names of their own. One mutex for the whole directory guards the moments in which a file's name
is taken away.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Final, NoReturn
from weakref import finalize

from locknut.backends.file import burial, file_layout, flock, this_process
from locknut.backends.file.barred_claims import BarredClaims
from locknut.backends.file.directory import Directory
from locknut.backends.file.file_layout import ahead_of_clock
from locknut.backends.file.flock import SUFFIX, FlockFile, file_name, open_existing
from locknut.backends.file.folder import EVERY, FOR_EACH, UNUSED_FOR, Folder
from locknut.backends.file.outcomes import Crowded, failed
from locknut.backends.file.this_process import own_identity
from locknut.core.base import BaseBackend, BaseEngine
from locknut.core.ports import Runtime
from locknut.core.values import (
    Answer,
    Broken,
    Busy,
    Capability,
    Claim,
    Granted,
    LockInfo,
    Mode,
    Notice,
    Renewal,
)
from locknut.errors import BackendError, LocknutError, Unsupported

if TYPE_CHECKING:
    from locknut.core.findings import Check

_SOONEST, _LATEST = 0.001, 0.05
_TRIES: Final = 1000
_STAMPING: Final = "stamping.mutex"
_PLAIN: Final = {
    Capability.FENCING,
    Capability.SESSION,
    Capability.NO_EVICTION,
    *({Capability.SHARED} if flock.CAN_SHARE else ()),
}


class FlockFiles:
    """The lock files of one directory, and the mutex under which names are taken away."""

    def __init__(self, directory: Directory) -> None:
        self.folder = Folder(directory)
        self._created = os.urandom(1)[0] % EVERY  # processes that make one file count too
        finalize(self, self.folder.close).atexit = False

    def clean(self, unused_for: float = 3600.0, most: int | None = None) -> int:
        """Remove files that nobody holds or was granted for `unused_for` seconds, at most
        `most`.
        """
        return sum(self._clean_one(name, unused_for) for name in self.names(most))

    def names(self, most: int | None = None) -> list[str]:
        return self.folder.names((SUFFIX,), most)

    def open(self, key: str) -> FlockFile:
        name = file_name(key)
        fd, new = self.folder.open_or_create(name)
        file = FlockFile(fd, self.folder, name, key)
        self._created += new
        if self._created >= self.folder.pause:
            most, self._created = FOR_EACH * self._created, 0
            with suppress(OSError, LocknutError):  # as in the other engine
                self.clean(UNUSED_FOR, most)
        return file

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Be the only process that takes a name from a file, or numbers a reader's grant."""
        fd, _new = self.folder.open_or_create(_STAMPING)
        mutex = FlockFile(fd, self.folder, _STAMPING)
        try:
            for _ in range(_TRIES):
                if flock.lock(fd, False):
                    break
                threading.Event().wait(0)
            else:
                raise Crowded
            yield
        finally:
            mutex.close()

    def _clean_one(self, name: str, unused_for: float) -> bool:
        with suppress(OSError, BackendError, Crowded):
            about = self.folder.about(name)
            if about.st_mtime > time.time() - unused_for or not self.folder.may_remove(about):
                return False
            file = open_existing(self.folder, name)
            if file is not None:
                try:
                    return self._remove(file, unused_for)
                finally:
                    file.close()
        return False

    def _remove(self, file: FlockFile, unused_for: float) -> bool:
        if not flock.lock(file.fd, False) or not file.alive():
            return False
        used = os.fstat(file.fd).st_mtime > time.time() - unused_for
        head = flock.read_at(file.fd, file_layout.HEAD, 0)
        if used or file_layout.foreign(head) or ahead_of_clock(file.glance().raw):
            return False
        with self.alone():
            burial.remove(file)
        return True


class FlockEngine(BaseEngine):
    """The holds of one directory in this process, by whole-file locks."""

    def __init__(self, directory: Directory) -> None:
        self.id = f"file:{directory.path}"
        self.files = FlockFiles(directory)
        self.holds: dict[str, tuple[FlockFile, int]] = {}
        """By claim id: the file and the number."""
        self.refusals: dict[str, int] = {}
        self.barred = BarredClaims()
        self.me = own_identity()
        this_process.remember(self)

    def blocking(self, runtime: Runtime) -> FlockBackend:
        return FlockBackend(self, runtime)

    def asyncio(self, runtime: Runtime) -> FlockBackend:
        return FlockBackend(self, runtime)

    def clean(self, unused_for: float = 3600.0) -> int:
        """Remove files of names that nobody holds or was granted for `unused_for` seconds."""
        return self.files.clean(unused_for)

    def forget(self) -> None:
        """In a forked child: nothing of this is ours (S17)."""
        self.files.folder.forget()
        self.holds = {}
        self.refusals = {}
        self.me = own_identity()

    def spare(self) -> bool:
        """No file is kept open that is not held."""
        return False


class FlockBackend(BaseBackend):
    """A backend that only asks, and says when to ask again."""

    name = "file"
    capabilities = frozenset(_PLAIN)
    default_ttl: float | None = None
    min_ttl = 0.01
    max_ttl = 10 * 365 * 86400.0
    heartbeat: float | None = 1.0
    passes_notes = True

    def __init__(self, engine: FlockEngine, runtime: Runtime) -> None:
        self._engine = engine
        self._random = runtime.random

    async def attempt(self, claim: Claim, patience: float) -> Answer:  # noqa: ARG002 -- never waits
        held = self._engine.holds.get(claim.id)
        if held is not None:
            return Granted(held[1])
        if claim.id in self._engine.barred:
            return Busy(_LATEST)
        if claim.mode is Mode.PERMIT or claim.owner is not None or claim.fair:
            self._unsupported("permits, owners and fairness", claim.key)
        try:
            raw = self._take(claim)
        except Crowded:
            raw = None
        except OSError as error:
            raise failed(error, claim.key) from error
        if raw is None:
            refused = self._engine.refusals[claim.id] = self._engine.refusals.get(claim.id, 0) + 1
            longest = min(_LATEST, _SOONEST * 2 ** min(refused, 10))
            return Busy(longest * (0.5 + self._random() / 2))
        self._engine.refusals.pop(claim.id, None)
        return Granted(raw)

    async def renew(self, claims: Sequence[Claim]) -> list[Notice]:
        try:
            return [self._renewal(claim) for claim in claims]
        except OSError as error:
            raise failed(error, None) from error

    async def release(self, claim: Claim, *, outcome_unknown: bool = False) -> bool:
        if outcome_unknown:
            self._engine.barred.bar(claim.id)
        self._engine.refusals.pop(claim.id, None)
        hold = self._engine.holds.pop(claim.id, None)
        if hold is None:
            return False
        file, raw = hold
        try:
            return file.holds(raw)
        except OSError as error:
            raise failed(error, claim.key) from error
        finally:
            file.close()

    async def downgrade(self, claim: Claim) -> bool:
        # flock lets go of the one before it takes the other: a writer could come in between.
        self._unsupported("turning an exclusive hold into a shared one", claim.key)

    async def detach(self, claim: Claim, ttl: float) -> bool:  # noqa: ARG002
        self._unsupported("detached holds", claim.key)

    async def attach(self, detached: Claim, claim: Claim) -> Granted | None:  # noqa: ARG002
        self._unsupported("detached holds", claim.key)

    async def break_hold(self, key: str, raw: int | None, note: str = "") -> LockInfo | None:
        try:
            return self._break(file_name(key), raw, note)
        except (OSError, Crowded) as error:
            raise failed(error, key) from error

    def _break(self, name: str, raw: int | None, note: str) -> LockInfo | None:
        folder = self._engine.files.folder
        with self._engine.files.alone():
            file = open_existing(folder, name)
            if file is None:
                return None
            try:
                last = file.glance().raw  # first: a grant that comes later has a higher number
                info = flock.lock_info(folder, name)
                if info is None or raw not in (None, info.holders[0].raw):
                    return None
                with burial.note_to_holders(file.fd, 0, last, note) as sent:
                    sent.stays = burial.bury(file, last, newcomers_too=raw is None)
                return info if sent.stays else None
            finally:
                this_process.close_fd(file.fd)

    async def inspect(self, key: str | None = None) -> list[LockInfo]:
        if key is None:
            files = self._engine.files
            found = [flock.lock_info_or_none(files.folder, name) for name in files.names()]
        else:
            try:
                found = [flock.lock_info(self._engine.files.folder, file_name(key))]
            except OSError as error:
                raise failed(error, key) from error
        return [info for info in found if info is not None]

    def checks(self, prefix: str) -> Sequence[Check]:  # noqa: ARG002 -- the whole directory
        from locknut.backends.file import checkup  # few programs need it

        return checkup.checks(self._engine.files.folder.directory, ofd_locks=False)

    async def close(self) -> None:
        self._engine.files.folder.close()

    def forked(self) -> None:
        self._engine.forget()

    def _take(self, claim: Claim) -> int | None:
        for _ in range(_TRIES):
            file = self._engine.files.open(claim.key)
            try:
                raw = self._lock(claim, file)
                if raw is not None:
                    self._engine.holds[claim.id] = (file, raw)
                    return raw
                if file.alive():
                    return None
                with self._engine.files.alone():
                    burial.finish(file)
            finally:
                if claim.id not in self._engine.holds:
                    file.close()
        raise BackendError("the lock file is removed again and again", key=claim.key)

    def _lock(self, claim: Claim, file: FlockFile) -> int | None:
        shared = claim.mode is Mode.SHARED
        if not flock.lock(file.fd, shared) or not file.alive():
            return None
        with self._engine.files.alone() if shared else nullcontext():
            raw = file.write_grant(claim, self._engine.me)
        # We look once more: a process that buried the file since may not have seen our record.
        return raw if file.alive() else None

    def _renewal(self, claim: Claim) -> Notice:
        hold = self._engine.holds.get(claim.id)
        if hold is None:
            return Renewal.LOST
        file, raw = hold
        if file.holds(raw):
            return Renewal.HELD
        note = burial.read_note(file.fd, raw)
        return Broken(note) if note else Renewal.LOST

    def _unsupported(self, what: str, key: str) -> NoReturn:
        message = f"{what} need open-file-description locks, which this system does not have"
        raise Unsupported(message, key=key, backend=self.name)
