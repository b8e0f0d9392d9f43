"""The plainer file engine, for systems without open-file-description locks (macOS, Windows).

One lock per file, exclusive or shared, by `flock`. There is no line and no bell: whoever is refused
asks again after a while. Fewer capabilities are declared, and nothing is silently weaker. A lock of
this kind and one of the other do not see each other, so its files have names of their own.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Final, NoReturn

from locknut.backends.file import burying, descriptors, layout, notes, plain, whole
from locknut.backends.file.directory import Directory
from locknut.backends.file.files import foreign
from locknut.backends.file.folder import Folder
from locknut.backends.file.identity import record_of, this_process
from locknut.backends.file.layout import EXCLUSIVE, SHARED
from locknut.backends.file.numbering import number_after
from locknut.backends.file.outcomes import Crowded, failed
from locknut.backends.file.plain import PlainFile, PlainFiles
from locknut.core.ports import Runtime, Signal
from locknut.core.values import (
    Answer,
    Broken,
    Busy,
    Capability,
    Claim,
    Granted,
    Heard,
    LockInfo,
    Mode,
    Renewal,
)
from locknut.errors import BackendError, Unsupported

_SOONEST, _LATEST = 0.001, 0.05
_TRIES: Final = 1000
_BARRED: Final = 1000
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
        self.files = PlainFiles(directory)
        self.holds: dict[str, tuple[PlainFile, int]] = {}
        """By claim id: the file and the number."""
        self.refusals: dict[str, int] = {}
        self.barred: dict[str, None] = {}
        self.me = this_process()
        descriptors.tell_after_fork(self)

    def blocking(self, runtime: Runtime) -> FallbackBackend:  # noqa: ARG002  # its parts ask the clock themselves
        return FallbackBackend(self)

    def asyncio(self, runtime: Runtime) -> FallbackBackend:  # noqa: ARG002  # its parts ask the clock themselves
        return FallbackBackend(self)

    def clean(self, unused_for: float = 3600.0) -> int:
        """Remove the files of names nobody holds or had granted for so many seconds."""
        return self.files.clean(unused_for)

    def bar(self, claim: Claim) -> None:
        """No command is ever late here, but whoever says one may be is believed (L3)."""
        self.barred[claim.id] = None
        if len(self.barred) > _BARRED:
            self.barred.pop(next(iter(self.barred)), None)

    def forget(self) -> None:
        """In a forked child: nothing of this is ours (S17)."""
        self.files.folder.forget()
        self.holds = {}
        self.refusals = {}
        self.me = this_process()


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
            return Busy(longest * random.uniform(0.5, 1.0))  # noqa: S311 -- not a secret
        self._engine.refusals.pop(claim.id, None)
        return Granted(raw)

    async def renew(self, claims: Sequence[Claim]) -> list[Heard]:
        try:
            return [self._renewal(claim) for claim in claims]
        except OSError as error:
            raise failed(error, None) from error

    async def release(self, claim: Claim, *, doubtful: bool = False) -> bool:
        if doubtful:
            self._engine.bar(claim)
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

    async def park(self, claim: Claim, ttl: float) -> bool:  # noqa: ARG002
        self._unsupported("detached holds", claim.key)

    async def adopt(self, parked: Claim, claim: Claim) -> Granted | None:  # noqa: ARG002
        self._unsupported("detached holds", claim.key)

    async def break_hold(self, key: str, raw: int | None) -> LockInfo | None:
        return await self.break_with_note(key, raw, "")

    async def break_with_note(self, key: str, raw: int | None, note: str) -> LockInfo | None:
        try:
            return self._break(plain.file_name(key), raw, note)
        except (OSError, Crowded) as error:
            raise failed(error, key) from error

    def _break(self, name: str, raw: int | None, note: str) -> LockInfo | None:
        folder = self._engine.files.folder
        with self._engine.files.alone():
            file = plain.open_existing(folder, name)
            if file is None:
                return None
            try:
                last = file.glance().raw  # first: who comes in later has a higher number
                info = plain.look(folder, name)
                if info is None or raw not in (None, info.holders[0].raw):
                    return None
                with notes.passed_on(file.fd, 0, last, note) as sent:
                    sent.stays = burying.bury(file, last, whoever=raw is None)
                return info if sent.stays else None
            finally:
                descriptors.close(file.fd)

    async def inspect(self, key: str | None = None) -> list[LockInfo]:
        if key is None:
            files = self._engine.files
            found = [_look_in_passing(files.folder, name) for name in files.names()]
        else:
            try:
                found = [plain.look(self._engine.files.folder, plain.file_name(key))]
            except OSError as error:
                raise failed(error, key) from error
        return [info for info in found if info is not None]

    def watch(self, claim: Claim, signal: Callable[[], Signal]) -> AbstractContextManager[Signal]:  # noqa: ARG002 -- nobody rings
        return nullcontext(signal())

    def listen(self, news: Callable[[str | None, Renewal], None]) -> None:
        """There is nothing to tell that `renew` does not."""

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
                    burying.finish(file)
            finally:
                if claim.id not in self._engine.holds:
                    file.close()
        raise BackendError("the lock file is removed again and again", key=claim.key)

    def _lock(self, claim: Claim, file: PlainFile) -> int | None:
        shared = claim.mode is Mode.SHARED
        if not whole.lock(file.fd, shared) or not file.alive():
            return None
        with self._engine.files.alone() if shared else nullcontext():
            raw = self._stamp(claim, file)
        # Once more: whoever buried the file since we looked may not have seen our record.
        return raw if file.alive() else None

    def _stamp(self, claim: Claim, file: PlainFile) -> int:
        head = whole.read_at(file.fd, layout.HEAD, 0)
        if layout.foreign(head):
            raise foreign(file.path, claim.key)
        if not any(head):
            whole.write_at(file.fd, layout.encode_key(claim.key), layout.KEY)
        now = time.time_ns()
        raw = number_after(file.glance().raw, now)
        mode = SHARED if claim.mode is Mode.SHARED else EXCLUSIVE
        record = record_of(claim, mode, bytes(16), raw, now, self._engine.me)
        whole.write_at(file.fd, layout.encode(record), 0)
        return raw

    def _renewal(self, claim: Claim) -> Heard:
        hold = self._engine.holds.get(claim.id)
        if hold is None:
            return Renewal.LOST
        file, raw = hold
        if file.holds(raw):
            return Renewal.HELD
        note = notes.read(file.fd, raw)
        return Broken(note) if note else Renewal.LOST

    def _unsupported(self, what: str, key: str) -> NoReturn:
        message = f"{what} need open-file-description locks, which this system does not have"
        raise Unsupported(message, key=key, backend=self.name)


def _look_in_passing(folder: Folder, name: str) -> LockInfo | None:
    """One bad file, or another user's, does not keep the others from being listed."""
    with suppress(OSError, BackendError):
        return plain.look(folder, name)
    return None
