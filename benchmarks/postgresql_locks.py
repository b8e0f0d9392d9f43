"""The PostgreSQL locks that are compared: bare statements, advisory locks, Locknut, and tooz.

The place of each is the URL of a database. The limit is the least that a durable lock in a table
has to do: two updates of one row, prepared, in autocommit, through psycopg. Advisory locks write
nothing, and end with the connection.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any
from zlib import crc32

import locknut
import locknut.aio
from benchmarks.kinds import Kind, Opened, Pair


def statements(url: str) -> Opened:
    connection = _connected(url)
    connection.execute("CREATE TABLE IF NOT EXISTS bare (name text PRIMARY KEY, holder text)")

    def opened(name: str) -> Pair:
        connection.execute("INSERT INTO bare VALUES (%s, '') ON CONFLICT DO NOTHING", [name])
        update = "UPDATE bare SET holder = %s WHERE name = %s AND holder = %s RETURNING holder"

        def say(new: str, old: str) -> None:
            assert connection.execute(update, [new, name, old], prepare=True).fetchone()

        return Pair(lambda: say("me", ""), lambda: say("", "me"))

    return opened


def advisory(url: str) -> Opened:
    connection = _connected(url)

    def opened(name: str) -> Pair:
        key = [crc32(name.encode())]
        take, give = "SELECT pg_advisory_lock(%s)", "SELECT pg_advisory_unlock(%s)"
        return Pair(
            lambda: connection.execute(take, key, prepare=True).fetchone(),
            lambda: connection.execute(give, key, prepare=True).fetchone(),
        )

    return opened


def _connected(url: str) -> Any:
    return import_module("psycopg").connect(url, autocommit=True)


def ours(url: str) -> Opened:
    locks = locknut.connect(url)
    return lambda name: _pair(locks.lock(name))


def ours_asyncio(url: str) -> Opened:
    locks = locknut.aio.connect(url)
    return lambda name: _pair(locks.lock(name))


def tooz(url: str) -> Opened:
    coordinator = import_module("tooz.coordination").get_coordinator(url, b"bench")
    coordinator.start()
    return lambda name: _pair(coordinator.get_lock(name.encode()))


def _pair(lock: Any) -> Pair:
    return Pair(lock.acquire, lock.release)


BARE = "two bare statements"
ADVISORY = "advisory locks"
BLOCKING = "locknut"
ASYNCIO = "locknut.aio"
TOOZ = "tooz"
KINDS = {
    BARE: Kind(statements, module="psycopg"),
    ADVISORY: Kind(advisory, module="psycopg"),
    BLOCKING: Kind(ours, module="psycopg"),
    ASYNCIO: Kind(ours_asyncio, True, module="psycopg"),
    TOOZ: Kind(tooz, module="tooz"),
}
