"""The file locks that are compared: the bare kernel, Holdfast in both colours, and the peers.

Every one is opened in the process that uses it, on a folder that all its processes share. Peers run
with the settings they come with; one that is not installed is left out, and the table says so.
"""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import holdfast
import holdfast.aio

NAME = "bench"
_FLOCK = struct.Struct("hhqqi4x")
_LOCK = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
_UNLOCK = _FLOCK.pack(fcntl.F_UNLCK, os.SEEK_SET, 0, 1, 0)


class Pair(NamedTuple):
    """What takes the lock and what gives it back: functions, or coroutine functions."""

    acquire: Callable[[], Any]
    release: Callable[[], Any]


class FileLock(NamedTuple):
    """One way to lock a file."""

    open: Callable[[Path], Pair]
    asyncio: bool = False
    package: str = "holdfast"
    interval: float = 0.0
    """How often it looks again while it waits; 0 for those that are woken."""

    @property
    def installed(self) -> bool:
        return find_spec(self.package) is not None


def bare(folder: Path) -> Pair:
    """The limit: an open-file-description lock and nothing else. It cannot be given up waiting for,
    fences nothing and has no order.
    """
    fd = os.open(folder / "bare", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def acquire() -> None:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLKW, _LOCK)

    def release() -> None:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _UNLOCK)

    return Pair(acquire, release)


def ours(folder: Path, *, fair: bool = False) -> Pair:
    lock = holdfast.connect(f"file://{folder}/holdfast").lock(NAME, fair=fair)
    return Pair(lock.acquire, lock.release)


def ours_fair(folder: Path) -> Pair:
    return ours(folder, fair=True)


def ours_asyncio(folder: Path, *, fair: bool = False) -> Pair:
    lock = holdfast.aio.connect(f"file://{folder}/holdfast").lock(NAME, fair=fair)
    return Pair(lock.acquire, lock.release)


def ours_asyncio_fair(folder: Path) -> Pair:
    return ours_asyncio(folder, fair=True)


def filelock(folder: Path) -> Pair:
    lock = import_module("filelock").FileLock(folder / "filelock")
    return Pair(lock.acquire, lock.release)


def filelock_asyncio(folder: Path) -> Pair:
    lock = import_module("filelock").AsyncFileLock(folder / "filelock")
    return Pair(lock.acquire, lock.release)


def portalocker(folder: Path) -> Pair:
    lock = import_module("portalocker").Lock(folder / "portalocker", timeout=3600)
    return Pair(lock.acquire, lock.release)


def fasteners(folder: Path) -> Pair:
    lock = import_module("fasteners").InterProcessLock(folder / "fasteners")
    return Pair(lock.acquire, lock.release)


BARE = "bare OFD lock"
BLOCKING = "holdfast"
FAIR = "holdfast, fair"
ASYNCIO = "holdfast.aio"
ASYNCIO_FAIR = "holdfast.aio, fair"
FILE_LOCKS = {
    BARE: FileLock(bare),
    BLOCKING: FileLock(ours),
    FAIR: FileLock(ours_fair),
    ASYNCIO: FileLock(ours_asyncio, asyncio=True),
    ASYNCIO_FAIR: FileLock(ours_asyncio_fair, asyncio=True),
    "fasteners": FileLock(fasteners, package="fasteners", interval=0.01),
    "portalocker": FileLock(portalocker, package="portalocker", interval=0.25),
    "filelock": FileLock(filelock, package="filelock", interval=0.05),
    "filelock, asyncio": FileLock(filelock_asyncio, True, "filelock", 0.05),
}
OURS = (BLOCKING, FAIR, ASYNCIO, ASYNCIO_FAIR)
PEERS = ("fasteners", "portalocker", "filelock")


def present(*names: str) -> list[str]:
    return [name for name in names if FILE_LOCKS[name].installed]


def missing(*names: str) -> list[str]:
    """A note for each peer that is not installed."""
    absent = {FILE_LOCKS[name].package for name in names if not FILE_LOCKS[name].installed}
    return [f"{each} is not installed: left out" for each in sorted(absent)]
