"""The PostgreSQL locks that are compared: bare statements, advisory locks, Locknut, tooz, pals and
django-pglock.

The place of each is the URL of a database. The limit is the least that a durable lock in a table
has to do: two updates of one row, prepared, in autocommit, through psycopg. Advisory locks write
nothing, and end with the connection; so do the three peers, which take them.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any
from urllib.parse import urlsplit
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


def advisory_with_number(url: str) -> Opened:
    """The same and, as statements of their own, the two writes of `statements`."""
    locked, written = advisory(url), statements(url)

    def opened(name: str) -> Pair:
        lock, row = locked(name), written(name)
        return Pair(
            lambda: (lock.acquire(), row.acquire()), lambda: (row.release(), lock.release())
        )

    return opened


def _connected(url: str) -> Any:
    return import_module("psycopg").connect(url, autocommit=True)


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


def tooz(url: str) -> Opened:
    coordinator = import_module("tooz.coordination").get_coordinator(url, b"bench")
    coordinator.start()
    return lambda name: _pair(coordinator.get_lock(name.encode()))


def pals(url: str) -> Opened:
    address = url.replace("postgresql://", "postgresql+psycopg2://")
    locker = import_module("pals").Locker("bench", address)
    return lambda name: _pair(locker.lock(name))


def pglock(url: str) -> Opened:
    """On the connection of a Django program, which is in autocommit."""
    parts = urlsplit(url)
    login = {"USER": parts.username, "PASSWORD": parts.password}
    where = {"HOST": parts.hostname, "PORT": parts.port, "NAME": parts.path.strip("/")}
    settings = import_module("django.conf").settings
    settings.configure(DATABASES={"default": _DJANGO | login | where})
    import_module("django").setup()
    advisory = import_module("pglock").advisory
    return lambda name: _pair(advisory(name))


_DJANGO = {"ENGINE": "django.db.backends.postgresql"}


def _pair(lock: Any) -> Pair:
    return Pair(lock.acquire, lock.release)


BARE = "bare statements"
ADVISORY = "bare advisory locks"
ADVISORY_NUMBERED = "bare advisory locks, two commits"
BLOCKING = "locknut"
ASYNCIO = "locknut.aio"
BY_SESSION = "locknut, by session"
ASYNCIO_BY_SESSION = "locknut.aio, by session"
TOOZ = "tooz"
PALS = "pals"
PGLOCK = "django-pglock"
KINDS = {
    BARE: Kind(statements, module="psycopg"),
    ADVISORY: Kind(advisory, module="psycopg"),
    ADVISORY_NUMBERED: Kind(advisory_with_number, module="psycopg"),
    BLOCKING: Kind(ours, module="psycopg"),
    ASYNCIO: Kind(ours_asyncio, True, module="psycopg"),
    BY_SESSION: Kind(ours_by_session, module="psycopg"),
    ASYNCIO_BY_SESSION: Kind(ours_asyncio_by_session, True, module="psycopg"),
    TOOZ: Kind(tooz, module="tooz"),
    PALS: Kind(pals, module="pals"),
    PGLOCK: Kind(pglock, module="pglock", package="django-pglock"),
}
PEERS = (TOOZ, PALS, PGLOCK)
