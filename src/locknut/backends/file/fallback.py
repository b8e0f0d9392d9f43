"""The plainer file engine, for systems without open-file-description locks (macOS, Windows).

One lock per file, exclusive or shared, by `flock`. There is no line and no bell: whoever is refused
asks again after a while. Fewer capabilities are declared, and nothing is silently weaker. A lock of
this kind and one of the other do not see each other, so its files have names of their own.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Final, NoReturn

from locknut.backends.file import descriptors, layout, plain, whole
from locknut.backends.file.directory import Directory
from locknut.backends.file.files import check_plain, foreign
from locknut.backends.file.folder import open_or_create
from locknut.backends.file.identity import record_of, this_process
from locknut.backends.file.layout import EXCLUSIVE, SHARED
from locknut.backends.file.naming import stem
from locknut.backends.file.numbering import ahead_of_clock, number_after
from locknut.backends.file.outcomes import Crowded, failed
from locknut.core.ports import Signal
from locknut.core.values import (
    Answer,
    Busy,
    Capability,
    Claim,
    Granted,
    LockInfo,
    Mode,
    Renewal,
)
from locknut.errors import BackendError, Unsupported

_SUFFIX: Final = ".flock"
_STAMPING: Final = "stamping.mutex"
_SOONEST, _LATEST = 0.001, 0.05
_TRIES: Final = 1000
_PLAIN: Final = {
    Capability.FENCING,
    Capability.SESSION,
    Capability.NO_EVICTION,
    *({Capability.SHARED} if whole.SHARED else ()),
}


class FallbackEngine:
    """The holds of one directory in this process, by whole-file locks."""

    def __init__(self, directory: Directory) -> None:
        self.id = f"file:{directory.path}"
        self.directory = directory
        self.holds: dict[str, tuple[int, str, int]] = {}
        """By claim id: descriptor, path, number."""
        self.refusals: dict[str, int] = {}
        self.me = this_process()
        descriptors.tell_after_fork(self)

    def blocking(self) -> FallbackBackend:
        return FallbackBackend(self)

    def asyncio(self) -> FallbackBackend:
        return FallbackBackend(self)

    def clean(self, unused_for: float = 3600.0) -> int:
        """Remove the files of names nobody holds or had granted for so many seconds."""
        return sum(self._clean_one(path, unused_for) for path in self.paths())

    def paths(self) -> list[str]:
        names = sorted(os.listdir(self.directory.path))
        return [os.path.join(self.directory.path, name) for name in names if name.endswith(_SUFFIX)]

    def path(self, key: str) -> str:
        return os.path.join(self.directory.path, stem(key) + _SUFFIX)

    def forget(self) -> None:
        """In a forked child: nothing of this is ours (S17)."""
        self.holds = {}
        self.refusals = {}
        self.me = this_process()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Where a name is taken from a file, and where readers number their grants."""
        path = os.path.join(self.directory.path, _STAMPING)
        fd, _new = open_or_create(path, self.directory.file_mode)
        try:
            for _ in range(_TRIES):
                if whole.lock(fd, False):
                    break
                threading.Event().wait(0)
            else:
                raise Crowded
            yield
        finally:
            plain.close(fd)

    def _clean_one(self, path: str, unused_for: float) -> bool:
        fd = plain.open_locked(path, shared=False)
        if fd is None:
            return False
        try:
            old = os.fstat(fd).st_mtime <= time.time() - unused_for
            if not old or ahead_of_clock(plain.last_grant(fd).raw) or not plain.leads_to(path, fd):
                return False
            with self.alone():
                whole.write_at(fd, layout.REMOVED, layout.GRAVE)
                plain.take_name(path, fd)
            return True
        finally:
            plain.close(fd)


class FallbackBackend:
    """Asks, and says when to ask again."""

    name = "file"
    capabilities = frozenset(_PLAIN)
    default_ttl: float | None = None
    min_ttl = 0.01
    max_ttl = 10 * 365 * 86400.0
    heartbeat: float | None = 1.0

    def __init__(self, engine: FallbackEngine) -> None:
        self._engine = engine

    async def attempt(self, claim: Claim, patience: float) -> Answer:  # noqa: ARG002 -- never waits
        held = self._engine.holds.get(claim.id)
        if held is not None:
            return Granted(held[2])
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
            return Busy(longest * random.uniform(0.5, 1.0))  # noqa: S311 -- not a secret
        self._engine.refusals.pop(claim.id, None)
        return Granted(raw)

    async def renew(self, claims: Sequence[Claim]) -> list[Renewal]:
        return [Renewal.HELD if self._holds(claim) else Renewal.LOST for claim in claims]

    async def release(self, claim: Claim, *, doubtful: bool = False) -> bool:  # noqa: ARG002 -- no reply is ever lost here
        self._engine.refusals.pop(claim.id, None)
        held = self._holds(claim)
        hold = self._engine.holds.pop(claim.id, None)
        if hold is not None:
            plain.close(hold[0])
        return held

    async def downgrade(self, claim: Claim) -> bool:
        # flock lets go of the one before it takes the other: a writer could come in between.
        self._unsupported("turning an exclusive hold into a shared one", claim.key)

    async def park(self, claim: Claim, ttl: float) -> bool:  # noqa: ARG002
        self._unsupported("detached holds", claim.key)

    async def adopt(self, parked: Claim, claim: Claim) -> Granted | None:  # noqa: ARG002
        self._unsupported("detached holds", claim.key)

    async def break_hold(self, key: str, raw: int | None) -> LockInfo | None:
        try:
            return self._break(key, raw)
        except (OSError, Crowded) as error:
            raise failed(error, key) from error

    def _break(self, key: str, raw: int | None) -> LockInfo | None:
        path = self._engine.path(key)
        with self._engine.alone(), suppress(FileNotFoundError):
            fd = descriptors.open_file(path, os.O_RDWR)
            try:
                last = plain.last_grant(fd).raw  # first: who comes in later has a higher number
                info = plain.look(path)
                if info is None or raw not in (None, info.holders[0].raw):
                    return None
                return info if plain.bury(path, fd, last, whoever=raw is None) else None
            finally:
                descriptors.close(fd)
        return None

    async def inspect(self, key: str | None = None) -> list[LockInfo]:
        if key is None:
            found = [_look_in_passing(path) for path in self._engine.paths()]
        else:
            try:
                found = [plain.look(self._engine.path(key))]
            except OSError as error:
                raise failed(error, key) from error
        return [info for info in found if info is not None]

    def watch(self, claim: Claim, signal: Callable[[], Signal]) -> AbstractContextManager[Signal]:  # noqa: ARG002 -- nobody rings
        return nullcontext(signal())

    def listen(self, news: Callable[[str | None, Renewal], None]) -> None:
        """There is nothing to tell that `renew` does not."""

    async def close(self) -> None:
        """Nothing is kept open but what is held."""

    def forked(self) -> None:
        self._engine.forget()

    def _take(self, claim: Claim) -> int | None:
        path = self._engine.path(claim.key)
        for _ in range(_TRIES):
            fd, _new = open_or_create(path, self._engine.directory.file_mode)
            try:
                raw = self._lock(claim, fd, path)
                if raw is not None:
                    self._engine.holds[claim.id] = (fd, path, raw)
                    return raw
                if plain.alive(path, fd):
                    return None
                with self._engine.alone():
                    plain.finish_burial(path, fd)
            finally:
                if claim.id not in self._engine.holds:
                    plain.close(fd)
        raise BackendError("the lock file is removed again and again", key=claim.key)

    def _lock(self, claim: Claim, fd: int, path: str) -> int | None:
        check_plain(os.fstat(fd), path)
        shared = claim.mode is Mode.SHARED
        if not whole.lock(fd, shared) or not plain.alive(path, fd):
            return None
        with self._engine.alone() if shared else nullcontext():
            raw = self._stamp(claim, fd, path)
        # Once more: whoever buried the file since we looked may not have seen our record.
        return raw if plain.alive(path, fd) else None

    def _stamp(self, claim: Claim, fd: int, path: str) -> int:
        head = whole.read_at(fd, layout.HEAD, 0)
        if layout.foreign(head):
            raise foreign(path, claim.key)
        if not any(head):
            whole.write_at(fd, layout.encode_key(claim.key), layout.KEY)
        now = time.time_ns()
        raw = number_after(plain.last_grant(fd).raw, now)
        mode = SHARED if claim.mode is Mode.SHARED else EXCLUSIVE
        record = record_of(claim, mode, bytes(16), raw, now, self._engine.me)
        whole.write_at(fd, layout.encode(record), 0)
        return raw

    def _holds(self, claim: Claim) -> bool:
        hold = self._engine.holds.get(claim.id)
        return hold is not None and plain.holds(hold[1], hold[0], hold[2])

    def _unsupported(self, what: str, key: str) -> NoReturn:
        message = f"{what} need open-file-description locks, which this system does not have"
        raise Unsupported(message, key=key, backend=self.name)


def _look_in_passing(path: str) -> LockInfo | None:
    """One bad file, or another user's, does not keep the others from being listed."""
    with suppress(OSError):
        return plain.look(path)
    return None
