"""The file locks that are compared: the bare kernel, Locknut in both colours, and the peers.

The place of each is a folder that all its processes share.
"""

from __future__ import annotations

import fcntl
import os
import select
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import Any

import locknut
import locknut.aio
from benchmarks.kinds import Kind, Opened, Pair

_FLOCK = struct.Struct("hhqqi4x")
_LOCK = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
_UNLOCK = _FLOCK.pack(fcntl.F_UNLCK, os.SEEK_SET, 0, 1, 0)
_UNLOCK_ALL = _FLOCK.pack(fcntl.F_UNLCK, os.SEEK_SET, 0, 0, 0)
_ANYBODY = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 1, 0, 0)
_NET = 1000
"""Milliseconds until somebody who waits looks again."""


def bare(folder: str) -> Opened:
    """The limit: an open-file-description lock and nothing else. It cannot be given up waiting for,
    fences nothing and has no order.
    """

    def opened(name: str) -> Pair:
        fd = os.open(f"{folder}/{name}.bare", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

        def acquire() -> None:
            fcntl.fcntl(fd, fcntl.F_OFD_SETLKW, _LOCK)

        def release() -> None:
            fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _UNLOCK)

        return Pair(acquire, release)

    return opened


def doorbell(folder: str) -> Opened:
    """The limit for a wait that can end early: nobody may sleep in the kernel's lock, so who waits
    locks a byte of its own and sleeps in `poll`, and who leaves looks for one and rings there.
    """

    def opened(name: str) -> Pair:
        fd = os.open(f"{folder}/{name}.bell", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        ringer = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        bell = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        bell.bind(f"\0{folder}/{name}-{os.getpid()}")
        mine = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, os.getpid(), 1, 0)
        poll = select.poll()
        poll.register(bell, select.POLLIN)

        def taken() -> bool:
            try:
                fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _LOCK)
            except BlockingIOError:
                return False
            return True

        def acquire() -> None:
            if taken():
                return
            fcntl.fcntl(fd, fcntl.F_OFD_SETLK, mine)
            while not taken():
                poll.poll(_NET)
                with suppress(BlockingIOError):
                    bell.recv(1, socket.MSG_DONTWAIT)

        def release() -> None:
            fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _UNLOCK_ALL)
            found = _FLOCK.unpack(fcntl.fcntl(fd, fcntl.F_OFD_GETLK, _ANYBODY))
            if found[0] != fcntl.F_UNLCK:
                with suppress(ConnectionRefusedError):
                    ringer.sendto(b"!", f"\0{folder}/{name}-{found[2]}")

        return Pair(acquire, release)

    return opened


def ours(folder: str, *, fair: bool = False) -> Opened:
    locks = locknut.connect(f"file://{folder}/locknut")
    return lambda name: _pair(locks.lock(name, fair=fair))


def ours_asyncio(folder: str, *, fair: bool = False) -> Opened:
    locks = locknut.aio.connect(f"file://{folder}/locknut")
    return lambda name: _pair(locks.lock(name, fair=fair))


def _peer(module: str, lock: str, folder: str, **options: Any) -> Opened:
    make: Callable[..., Any] = getattr(import_module(module), lock)
    return lambda name: _pair(make(f"{folder}/{name}.{module}", **options))


def _pair(lock: Any) -> Pair:
    return Pair(lock.acquire, lock.release)


def filelock(folder: str) -> Opened:
    return _peer("filelock", "FileLock", folder)


def filelock_asyncio(folder: str) -> Opened:
    return _peer("filelock", "AsyncFileLock", folder)


def portalocker(folder: str) -> Opened:
    return _peer("portalocker", "Lock", folder, timeout=3600)


def fasteners(folder: str) -> Opened:
    return _peer("fasteners", "InterProcessLock", folder)


BARE = "bare OFD lock"
DOORBELL = "bare doorbell"
BLOCKING = "locknut"
FAIR = "locknut, fair"
ASYNCIO = "locknut.aio"
ASYNCIO_FAIR = "locknut.aio, fair"
PEERS = ("fasteners", "portalocker", "filelock")
KINDS = {
    BARE: Kind(bare),
    DOORBELL: Kind(doorbell),
    BLOCKING: Kind(ours),
    FAIR: Kind(partial(ours, fair=True)),
    ASYNCIO: Kind(ours_asyncio, asyncio=True),
    ASYNCIO_FAIR: Kind(partial(ours_asyncio, fair=True), asyncio=True),
    "fasteners": Kind(fasteners, module="fasteners", interval=0.01),
    "portalocker": Kind(portalocker, module="portalocker", interval=0.25),
    "filelock": Kind(filelock, module="filelock", interval=0.05),
    "filelock, asyncio": Kind(filelock_asyncio, True, module="filelock", interval=0.05),
}
