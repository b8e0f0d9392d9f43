"""The MySQL locks that are compared: two bare statements, GET_LOCK, Locknut, and tooz.

The place of each is the URL of a database. The bare statements are the least that a lease in a
table has to send, an upsert and an update by primary key, through the same driver. tooz runs with
the settings it comes with: a connection and a named lock for each lock.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

import locknut
import locknut.aio
from benchmarks.kinds import Kind, Opened, Pair

TABLE = (
    "CREATE TABLE IF NOT EXISTS bare (name VARBINARY(255) NOT NULL PRIMARY KEY, "
    "holder VARCHAR(64) NOT NULL, expires BIGINT NOT NULL) ENGINE=InnoDB"
)
TAKE = (
    "INSERT INTO bare VALUES ('{name}', '{owner}', 1) ON DUPLICATE KEY UPDATE "
    "expires = expires + 1, holder = '{owner}'"
)
GIVE_BACK = "UPDATE bare SET holder = '' WHERE name = '{name}' AND holder = '{owner}'"


def ours(url: str) -> Opened:
    locks = locknut.connect(url)
    return lambda name: _pair(locks.lock(name))


def ours_by_session(url: str) -> Opened:
    return ours(f"{url}?mode=session")


def ours_asyncio_by_session(url: str) -> Opened:
    return ours_asyncio(f"{url}?mode=session")


def ours_asyncio(url: str) -> Opened:
    locks = locknut.aio.connect(url)
    return lambda name: _pair(locks.lock(name))


def bare(url: str) -> Opened:
    driver = _connected(url)
    driver.query(TABLE)

    def opened(name: str) -> Pair:
        words = {"name": name, "owner": "0" * 32}
        take, give_back = TAKE.format(**words), GIVE_BACK.format(**words)
        return Pair(lambda: driver.query(take), lambda: driver.query(give_back))

    return opened


def named(url: str) -> Opened:
    driver = _connected(url)

    def opened(name: str) -> Pair:
        take, give_back = f"SELECT GET_LOCK('{name}', 60)", f"SELECT RELEASE_LOCK('{name}')"
        return Pair(lambda: driver.query(take), lambda: driver.query(give_back))

    return opened


def named_with_number(url: str) -> Opened:
    """The same and, as statements of their own, the two writes of `bare`."""
    locked, written = named(url), bare(url)

    def opened(name: str) -> Pair:
        lock, row = locked(name), written(name)
        return Pair(
            lambda: (lock.acquire(), row.acquire()), lambda: (row.release(), lock.release())
        )

    return opened


def tooz(url: str) -> Opened:
    address = url.replace("mariadb://", "mysql://")
    made = import_module("tooz.coordination").get_coordinator(address, b"bench")
    made.start()
    return lambda name: _pair(made.get_lock(name.encode()))


def _pair(lock: Any) -> Pair:
    return Pair(lock.acquire, lock.release)


def _connected(url: str) -> Any:
    parts = urlsplit(url)
    return import_module("pymysql").connect(
        host=parts.hostname,
        port=parts.port,
        user=parts.username,
        password=parts.password,
        database=parts.path.strip("/"),
        autocommit=True,
        ssl_disabled=True,
    )


BARE = "bare statements"
NAMED = "bare GET_LOCK"
NAMED_NUMBERED = "bare GET_LOCK, two commits"
BLOCKING = "locknut"
ASYNCIO = "locknut.aio"
BY_SESSION = "locknut, by session"
ASYNCIO_BY_SESSION = "locknut.aio, by session"
TOOZ = "tooz"
KINDS = {
    BARE: Kind(bare, module="pymysql", package="PyMySQL"),
    NAMED: Kind(named, module="pymysql", package="PyMySQL"),
    NAMED_NUMBERED: Kind(named_with_number, module="pymysql", package="PyMySQL"),
    BLOCKING: Kind(ours, module="pymysql", package="PyMySQL"),
    ASYNCIO: Kind(ours_asyncio, True, module="pymysql", package="PyMySQL"),
    BY_SESSION: Kind(ours_by_session, module="pymysql", package="PyMySQL"),
    ASYNCIO_BY_SESSION: Kind(ours_asyncio_by_session, True, module="pymysql", package="PyMySQL"),
    TOOZ: Kind(tooz, module="tooz", interval=1.0),
}
PEERS = (TOOZ,)
