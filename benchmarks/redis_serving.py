"""The private Redis of a workload, and what it did."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.kinds import installed
from benchmarks.reporting import Table
from tests.servers.redis import RedisServer


@contextmanager
def serving(table: Table) -> Iterator[RedisServer]:
    """A fresh server without persistence, whose version goes into the report."""
    with RedisServer() as server:
        table.versions |= installed("hiredis", "uvloop")
        table.versions["redis-server"] = server.info()["redis_version"]
        yield server


def forget_calls(server: RedisServer) -> None:
    server.ask("CONFIG", "RESETSTAT")


def calls(server: RedisServer) -> dict[str, int]:
    """How often each command was run since `forget_calls`, but for our own looking."""
    told = {
        name.removeprefix("cmdstat_"): int(said.split(",")[0].removeprefix("calls="))
        for name, said in server.info("commandstats").items()
    }
    return {name: count for name, count in told.items() if not name.startswith(("config", "info"))}
