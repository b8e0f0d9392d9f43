"""The guard for one file: reads and writes with an old fence are refused, across processes.

    with locks.lock("accounts") as lease:
        accounts = FileGuard("accounts.json").enter(lease)
        balance = json.loads(accounts.read_text())
        accounts.write_text(json.dumps(change(balance)))

Everything blocks for the length of a small file operation; from asyncio call it as
`await asyncio.to_thread(accounts.write_text, text)`. A write that was cancelled there may still
happen: it carries its fence, so it happens only while nobody newer has entered.
"""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Self

from locknut.errors import ConfigurationError, NotHeld
from locknut.guards.fences import Fenced, fence_of, forgotten, stale
from locknut.guards.record import FenceRecord, locked, this_process
from locknut.runtimes.descriptors import away_from_standard


class FileGuard:
    """Guards one file, for one holder at a time: make a new one for each hold.

    The newest fence is kept in `<path>.fence` beside the file: whoever removes or empties it lets
    old holders in. Everybody who changes the file must come through a guard; a write without one
    is not refused.
    """

    def __init__(self, path: str | os.PathLike[str], *, patience: float = 30.0) -> None:
        # One record for one file, by whatever name: links are followed once, here.
        self.path = os.path.realpath(path)
        self._folder, self._name = os.path.split(self.path)
        if not self._name or os.path.isdir(self.path):
            raise ConfigurationError(f"path={os.fspath(path)!r} is not a file")
        self._patience = patience
        self._fence: int | None = None
        self._inside: tuple[object, int, int] | None = None
        """The process, the thread and the open folder of the step that is under way."""

    def __repr__(self) -> str:
        return f"FileGuard({self.path!r}, fence={self._fence})"

    @property
    def fence(self) -> int | None:
        """The fence this guard was entered with."""
        return self._fence

    @property
    def newest(self) -> int | None:
        """The newest fence that entered the file, by anybody; None if none did."""
        if self._stepping() is not None:  # nobody newer can come in before the step ends
            return self._fence
        with self._opened() as (_, record):
            return record.newest() or None

    def enter(self, lease: Fenced | int) -> Self:
        """Come in, before the first read: from now on everybody with an older fence is refused.

        The same fence may come in again; an older one raises `StaleFence`.
        """
        fence = fence_of(lease)
        with self._admitted(fence, entering=True):
            self._fence = fence
        return self

    @contextmanager
    def step(self, lease: Fenced | int | None = None) -> Iterator[Self]:
        """A critical section for any change to the file: admitted at its start, alone to its end.

        With a lease (or fence) it enters as well. Reads and writes of this guard work inside.
        """
        if lease is not None:
            self.enter(lease)
        with self._admitted(self._entered()) as folder:
            here = (this_process(), threading.get_ident(), folder)
            outer, self._inside = self._inside, here
            try:
                yield self
            finally:
                self._inside = outer

    def read_bytes(self) -> bytes:
        """The file's content, if nobody newer has entered."""
        with (
            self._admitted(self._entered()) as folder,
            open(self._name, "rb", opener=partial(_open_within, folder)) as file,
        ):
            return file.read()

    def read_text(self, encoding: str = "utf-8") -> str:
        """The file's content as text, if nobody newer has entered."""
        return self.read_bytes().decode(encoding)

    def write_bytes(self, content: bytes) -> None:
        """Replace the content, all or nothing, if nobody newer has entered.

        Only the replacing needs the others to wait: the new content is on the disk before.
        """
        fence = self._entered()
        with self._at_folder() as folder:
            draft = self._draft(folder, fence, content)
            try:
                with self._admitted(fence):
                    os.replace(draft, self._name, src_dir_fd=folder, dst_dir_fd=folder)
                    os.fsync(folder)
            except BaseException:
                with suppress(FileNotFoundError):
                    os.unlink(draft, dir_fd=folder)
                raise

    def write_text(self, text: str, encoding: str = "utf-8") -> None:
        """Replace the content with this text, all or nothing, if nobody newer has entered."""
        self.write_bytes(text.encode(encoding))

    def _entered(self) -> int:
        if self._fence is None:
            raise NotHeld(f"call enter(lease) before the first read or write of {self.path}")
        return self._fence

    def _stepping(self) -> int | None:
        """The open folder, if this thread is in the middle of a step.

        A child that was forked in the middle is not: the kernel lock is its parent's alone.
        """
        if self._inside is None:
            return None
        process, thread, folder = self._inside
        here = process is this_process() and thread == threading.get_ident()
        return folder if here else None

    @contextmanager
    def _admitted(self, fence: int, *, entering: bool = False) -> Iterator[int]:
        """The open folder, inside the kernel lock, with the fence judged in the same section."""
        stepping = self._stepping()
        if stepping is not None:
            if fence != self._fence:
                raise ConfigurationError(f"a step with fence {self._fence} is not over yet")
            yield stepping
            return
        with self._opened() as (folder, record):
            newest = record.newest()
            if fence < newest:
                raise stale(fence, newest, self.path)
            if fence > newest:
                if not entering:
                    ways = "it was removed, emptied or restored"
                    raise forgotten(fence, newest, f"{self.path}.fence", ways)
                record.enter(fence)
                if not newest:  # the record is new, so its name has to reach the disk too
                    os.fsync(folder)
                self._clear_drafts(folder, fence)
            yield folder

    @contextmanager
    def _opened(self) -> Iterator[tuple[int, FenceRecord]]:
        with (
            self._at_folder() as folder,
            locked(f"{self._name}.fence", folder, f"{self.path}.fence", self._patience) as record,
        ):
            yield folder, record

    @contextmanager
    def _at_folder(self) -> Iterator[int]:
        """The folder, held open: whoever swaps it for a link meanwhile changes nothing for us."""
        folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            yield folder
        finally:
            os.close(folder)

    def _draft(self, folder: int, fence: int, content: bytes) -> str:
        draft = f".{self._name}.{fence:020d}.{secrets.token_hex(8)}.draft"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = away_from_standard(os.open(draft, flags, 0o666, dir_fd=folder))
        try:
            with open(descriptor, "wb") as file:
                with suppress(FileNotFoundError):
                    _become_like(descriptor, os.stat(self._name, dir_fd=folder))
                file.write(content)
                file.flush()
                os.fsync(descriptor)
        except BaseException:  # a full disk must not get fuller with every try
            with suppress(FileNotFoundError):
                os.unlink(draft, dir_fd=folder)
            raise
        return draft

    def _clear_drafts(self, folder: int, fence: int) -> None:
        """What writers left who died before replacing; they would be refused from now on anyway."""
        before, after = f".{self._name}.", ".draft"
        for name in os.listdir(folder):
            if name.startswith(before) and name.endswith(after):
                number = name[len(before) :].split(".", 1)[0]
                if number.isdigit() and int(number) < fence:
                    with suppress(FileNotFoundError):
                        os.unlink(name, dir_fd=folder)


def _open_within(folder: int, name: str, flags: int) -> int:
    return os.open(name, flags | os.O_NOFOLLOW, dir_fd=folder)


def _become_like(draft: int, old: os.stat_result) -> None:
    """Owner, group and mode stay as they were, as far as this process may say so."""
    with suppress(OSError):
        os.fchown(draft, -1, old.st_gid)
    with suppress(OSError):
        os.fchown(draft, old.st_uid, -1)
    os.fchmod(draft, old.st_mode & 0o7777)  # last: a new owner takes the set-user-id bit away
