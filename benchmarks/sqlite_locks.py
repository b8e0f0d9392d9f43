"""The SQLite locks that are compared: two bare statements, and Locknut in both colours.

The place of each is a folder that all its processes share.
"""

from __future__ import annotations

import sqlite3
from typing import Any

import locknut
import locknut.aio
from benchmarks.kinds import Kind, Opened, Pair

_TABLE = "CREATE TABLE IF NOT EXISTS bare (name TEXT PRIMARY KEY, holder TEXT) WITHOUT ROWID"
_TAKE = "INSERT INTO bare VALUES (?, 'x') ON CONFLICT (name) DO UPDATE SET holder = excluded.holder"
_LEAVE = "UPDATE bare SET holder = '' WHERE name = ?"


def bare(folder: str) -> Opened:
    """The limit: an upsert and an update, each a durable commit. It excludes nobody."""
    file = sqlite3.connect(f"{folder}/bare.db", isolation_level=None, check_same_thread=False)
    file.execute("PRAGMA journal_mode = WAL")
    file.execute("PRAGMA synchronous = FULL")
    file.execute(_TABLE)

    def opened(name: str) -> Pair:
        return Pair(lambda: file.execute(_TAKE, (name,)), lambda: file.execute(_LEAVE, (name,)))

    return opened


def ours(folder: str) -> Opened:
    locks = locknut.connect(f"sqlite://{folder}/locks.db")
    return lambda name: _pair(locks.lock(name))


def ours_asyncio(folder: str) -> Opened:
    locks = locknut.aio.connect(f"sqlite://{folder}/locks.db")
    return lambda name: _pair(locks.lock(name))


def _pair(lock: Any) -> Pair:
    return Pair(lock.acquire, lock.release)


BARE = "bare upsert and update"
BLOCKING = "locknut"
ASYNCIO = "locknut.aio"
KINDS = {
    BARE: Kind(bare),
    BLOCKING: Kind(ours),
    ASYNCIO: Kind(ours_asyncio, asyncio=True),
}
