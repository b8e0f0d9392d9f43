"""Named pipes beside a database file, one for each client that waits: how processes ring.

They stand in a folder `<file>-bells`, and whoever may use the file may use them. A pipe has its
name only while somebody reads it, or after its reader was killed: then whoever comes by removes it.
"""

from __future__ import annotations

import os
import stat
import time
from contextlib import suppress
from errno import ENXIO
from typing import Final

from locknut.runtimes.descriptors import away_from_standard

WORD: Final = 33
"""Bytes of a ring: a claim id and the end of its line. It is written in one piece."""
_ID: Final = 32
_SWEPT: Final = 64
"""So many pipes are looked at by each that begins to wait."""
_HALF_MADE: Final = 60.0
"""Seconds after which a pipe without its name is left over from a process that was killed."""
_TRIES: Final = 10


class Fifos:
    """The folder of one database file."""

    def __init__(self, database: str):
        self._database = database
        self.folder = f"{database}-bells"

    def make(self, client: str) -> int:
        """A descriptor that reads what is rung to this client; raises OSError."""
        for left in reversed(range(_TRIES)):
            about = os.stat(self._database)
            self._ensure_folder(about)
            self._sweep()
            try:
                return self._make(client, about)
            except FileNotFoundError:  # somebody removed the empty folder just now
                if not left:
                    raise
        raise FileNotFoundError(self.folder)

    def _make(self, client: str, about: os.stat_result) -> int:
        draft = os.path.join(self.folder, f".{client}")
        os.mkfifo(draft, 0o600)
        try:
            with suppress(PermissionError):
                os.chown(draft, -1, about.st_gid)
            os.chmod(draft, about.st_mode & 0o666)
            # For both, so that it never comes to an end when a writer goes.
            fd = os.open(draft, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
            os.rename(draft, self._path(client))
        except BaseException:
            with suppress(OSError):
                os.unlink(draft)
            raise
        return away_from_standard(fd)

    def ring(self, client: str, claim_id: str) -> None:
        """A favour: the claim looks by itself if it does not hear this."""
        if len(client) == _ID and client.isalnum() and len(claim_id) == _ID:
            word = f"{claim_id}\n".encode("ascii", "replace")
            with suppress(OSError):
                self._write(self._path(client), word)

    def remove(self, client: str) -> None:
        """And the folder, if that was the last."""
        with suppress(OSError):
            os.unlink(self._path(client))
        with suppress(OSError):
            os.rmdir(self.folder)

    def _ensure_folder(self, about: os.stat_result) -> None:
        """Made with the rights of the file; one of a stranger is not used."""
        rights = about.st_mode & 0o777
        with suppress(FileExistsError):
            os.mkdir(self.folder, 0o700)
            with suppress(PermissionError):
                os.chown(self.folder, -1, about.st_gid)
            os.chmod(self.folder, rights | (rights & 0o444) >> 2)
        found = os.lstat(self.folder)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid not in (about.st_uid, os.geteuid(), 0):
            raise PermissionError(f"{self.folder} is a stranger's")

    def _sweep(self) -> None:
        """Remove pipes of processes that were killed."""
        for name in os.listdir(self.folder)[:_SWEPT]:
            path = os.path.join(self.folder, name)
            with suppress(OSError):
                if not name.startswith("."):
                    self._write(path, b"")
                elif os.lstat(path).st_mtime < time.time() - _HALF_MADE:
                    os.unlink(path)

    def _write(self, path: str, word: bytes) -> None:
        try:
            flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
            fd = away_from_standard(os.open(path, flags))
        except OSError as error:
            if error.errno == ENXIO:  # nobody reads it, nor ever will
                os.unlink(path)
            raise
        try:
            if word and stat.S_ISFIFO(os.fstat(fd).st_mode):
                os.write(fd, word)
        finally:
            os.close(fd)

    def _path(self, client: str) -> str:
        return os.path.join(self.folder, client)
