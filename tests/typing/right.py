"""What type checkers make of right code: mypy (`make check`) and pyright (test_pyright.py).

This file is never run. `assert_type` is for the checkers alone.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any, Literal, assert_type

import locknut
from locknut import aio, redlock
from locknut.guards.sql import SqlGuard, create_table
from locknut.guards.sql import aio as sql_aio


def locks_and_leases(locks: locknut.Locks) -> None:
    assert_type(locknut.connect("memory:"), locknut.Locks)
    assert_type(locknut.lock("x", 30, 5, auto_renew=False, max_hold="10m"), locknut.Lock)
    assert_type(locks.lock("x", ttl=timedelta(seconds=3), on_lost="ignore"), locknut.Lock)
    assert_type(locks.lock("x", on_lost=print), locknut.Lock)
    assert_type(locknut.rwlock("x").read(), locknut.Lock)
    assert_type(locknut.semaphore("x", 3, fair=True), locknut.Semaphore)
    assert_type(locknut.all("a", "b", timeout=5), locknut.LockGroup)
    with locknut.lock("x") as lease:
        assert_type(lease, locknut.Lease)
        assert_type(lease.fence, int)
    with locks.all("a", "b") as leases:
        assert_type(leases.fences, dict[str, int])
    assert_type(locks.lock("x").acquire(), locknut.Lease | None)
    assert_type(locknut.info("x"), locknut.LockInfo)
    assert_type(locknut.list(), list[locknut.LockInfo])
    assert_type(locknut.force_release("x", fence=7, reason="stuck"), bool)
    assert_type(locknut.ping(timeout=1).seconds, float)
    assert_type([each.agrees for each in locknut.info("x").details], list[bool])
    several = redlock.Redlock(["redis://a", "redis://b", "redis://c"], max_ttl="2m")
    assert_type(locknut.connect(several), locknut.Locks)
    assert_type(redlock.nodes(several), list[redlock.NodeInfo])


def uses(locks: locknut.Locks) -> None:
    def work(term: locknut.Term) -> str:
        return f"term {term.fence}"

    assert_type(locks.election("x"), locknut.Election)
    assert_type(locks.election("x").run(work), str)
    for term in locknut.election("x").terms(timeout=5):
        assert_type(term, locknut.Term)
        assert_type(term.lease, locknut.Lease)
    assert_type(locknut.once("x", per="15m"), locknut.Once)
    with locks.once("x", per="15m") as lease:
        assert_type(lease, locknut.Lease | None)
    assert_type(locks.barrier("x", 3), locknut.Barrier)
    assert_type(locks.latch("x", 3), locknut.Latch)


async def the_same_uses_awaited(locks: aio.Locks) -> None:
    async def work(term: aio.Term) -> str:
        return f"term {term.fence}"

    assert_type(aio.election("x"), aio.Election)
    assert_type(await locks.election("x").run(work), str)
    async for term in locks.election("x").terms():
        assert_type(term, aio.Term)
    assert_type(aio.once("x", per="15m"), aio.Once)
    assert_type(locks.barrier("x", 3), aio.Barrier)
    assert_type(locks.latch("x", 3), aio.Latch)


async def the_same_awaited(locks: aio.Locks) -> None:
    assert_type(aio.lock("x", 30, 5, fair=True), aio.Lock)
    assert_type(aio.semaphore("x", 3), aio.Semaphore)
    async with aio.lock("x") as lease:
        assert_type(lease, aio.Lease)
    assert_type(await locks.lock("x").acquire(), aio.Lease | None)
    assert_type(await aio.info("x"), locknut.LockInfo)
    assert_type(await aio.list("x*"), list[locknut.LockInfo])
    assert_type(await aio.force_release("x"), bool)
    assert_type(await aio.ping(), locknut.Ping)
    assert_type(aio.connect(redlock.Redlock(["redis://a"])), aio.Locks)


def guards(lease: locknut.Lease, connection: sqlite3.Connection) -> None:
    assert_type(create_table(connection, table="app.guards"), None)
    assert_type(SqlGuard(connection, "x").enter(lease), SqlGuard)
    assert_type(
        SqlGuard(connection, "x", dialect="sqlite", paramstyle="qmark").enter(7).fence, int | None
    )
    assert_type(SqlGuard(connection, "x").newest(), int | None)


async def guards_awaited(lease: aio.Lease, connection: object) -> None:
    await sql_aio.create_table(connection)
    assert_type(await sql_aio.SqlGuard(connection, "x").enter(lease), sql_aio.SqlGuard)
    assert_type(await sql_aio.SqlGuard(connection, "x").newest(), int | None)


@locknut.locked("user:{user}", ttl=30)
def plain(user: int, *, force: bool = False) -> str:
    return f"{user} {force}"


@locknut.locked("user:{user}", on_busy="wait", timeout=5)
def waiting(user: int) -> str:
    return str(user)


@locknut.locked("user:{user}", on_busy="skip", owner="me")
def skipping(user: int) -> str:
    return str(user)


@aio.locked("user:{user}")
async def plain_in_a_loop(user: int) -> str:
    return str(user)


@aio.locked("user:{user}", on_busy="skip")
async def skipping_in_a_loop(user: int) -> str:
    return str(user)


class Service:
    locks = locknut.connect("memory:")

    @locks.locked("service:{user}")
    def method(self, user: int) -> bytes:
        return bytes(user)

    @locks.locked("service:{user}", on_busy="skip")
    def skipping(self, user: int) -> bytes:
        return bytes(user)


async def only_a_skip_is_optional(locks: aio.Locks, either: Literal["raise", "skip"]) -> None:
    assert_type(plain(7, force=True), str)
    assert_type(waiting(7), str)
    assert_type(skipping(7), str | None)
    assert_type(await plain_in_a_loop(7), str)
    assert_type(await skipping_in_a_loop(7), str | None)
    assert_type(Service().method(7), bytes)
    assert_type(Service().skipping(7), bytes | None)

    async def load(user: int) -> str:
        return str(user)

    decorated = locks.locked("user:{user}")(load)
    typed: Callable[[int], Coroutine[Any, Any, str]] = decorated
    assert_type(await typed(7), str)
    assert_type(locknut.locked("x", on_busy=either)(waiting)(7), str | None)
