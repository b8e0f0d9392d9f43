"""Three containers start on an empty database and want to migrate it: with the lock, one does.

Without it, all of them find nothing and all begin. Any tool for migrations goes where `upgrade` is.
Runs on files of its own, or on the engine that LOCKNUT_URL names.
"""

from __future__ import annotations

import multiprocessing
import os
import secrets
import sqlite3
import sys
import tempfile
from contextlib import closing
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import locknut

CONTAINERS = 3


def is_current(database: str) -> bool:
    with closing(sqlite3.connect(database, timeout=30)) as connection:
        return bool(connection.execute("SELECT 1 FROM sqlite_master").fetchall())


def upgrade(database: str) -> None:
    with closing(sqlite3.connect(database, timeout=30)) as connection, connection:
        connection.execute("CREATE TABLE orders (number INTEGER PRIMARY KEY)")


def careless(database: str, everybody_looked: Any, tell: Connection) -> None:
    """What a container does at its start, and many do: look, then act."""
    current = is_current(database)
    everybody_looked.wait(60)  # they were started by the same deployment
    try:
        if not current:
            upgrade(database)
    except sqlite3.OperationalError as error:
        tell.send(f"crashed: {error}")
    else:
        tell.send("migrated")


def careful(database: str, url: str, namespace: str, tell: Connection) -> None:
    """The same under a lock: whoever comes second finds nothing left to do."""
    with (
        locknut.connect(url, namespace=namespace) as locks,
        locks.lock("migrate", timeout="10m"),
    ):
        if is_current(database):
            tell.send("found it done")
        else:
            upgrade(database)
            tell.send("migrated")


def start(way: Any, *settings: Any) -> list[str]:
    """Start all containers, and hear what each of them says."""
    processes = multiprocessing.get_context("spawn")
    told, tell = processes.Pipe(duplex=False)
    if way is careless:
        settings = (*settings, processes.Barrier(CONTAINERS))
    crowd = [processes.Process(target=way, args=(*settings, tell)) for _ in range(CONTAINERS)]
    for process in crowd:
        process.start()
    tell.close()  # so that we hear of it if one dies
    said = [told.recv() for _ in crowd]
    for process in crowd:
        process.join()
    return sorted(said)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        url = os.environ.get("LOCKNUT_URL") or f"file://{folder}/locks"
        without = start(careless, str(Path(folder, "first.db")))
        print(f"without a lock: {without}")
        namespace = f"example-{secrets.token_hex(4)}"
        said = start(careful, str(Path(folder, "second.db")), url, namespace)
        print(f"with Locknut:   {said}")
    if said != ["found it done"] * (CONTAINERS - 1) + ["migrated"]:
        sys.exit("NOT proved")
    crashed = CONTAINERS - without.count("migrated")
    print(f"Proved: one of {CONTAINERS} migrated and none crashed; without the lock {crashed} did.")


if __name__ == "__main__":
    main()
