"""What type checkers make of mistakes: each line is an error to both, or the comment is one.

mypy tells of a needless `type: ignore` (`make check`), pyright of a needless `pyright: ignore`
(test_pyright.py). This file is never run.
"""

from __future__ import annotations

import locknut
from locknut import aio
from locknut.guards.sql import SqlGuard


def options(locks: locknut.Locks, more: aio.Locks) -> None:
    locknut.lock("x", tll=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    aio.lock("x", tll=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    locks.lock("x", tll=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    more.lock("x", tll=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    locknut.rwlock("x", fair=True)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    locknut.semaphore("x")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    locknut.semaphore("x", "3")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    locknut.all(1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    locknut.lock(7)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    locknut.lock("x", on_lost="explode")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    locknut.ping(None)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def guards(connection: object) -> None:
    SqlGuard(connection, "x").enter("7")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    SqlGuard(connection, 7)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    SqlGuard(connection)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    SqlGuard(connection, "x", tabel="y")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


async def acquiring(lock: locknut.Lock, more: aio.Lock) -> None:
    lock.acquire(blocking_timeout=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await more.acquire(blocking_timeout=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    locknut.all("x", "y").acquire(ttl=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def decorators(locks: locknut.Locks, more: aio.Locks) -> None:
    locknut.locked("x", tll=3)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    locks.locked("x", tll=3)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    more.locked("x", on_busy="explode")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
    locknut.locked("x", ttl=b"3")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    locks.locked(decorators)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    aio.locked("x")(plain)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def plain() -> int:
    return 7


@locknut.locked("x", on_busy="skip")
def skipping() -> int:
    return 7


total: int = skipping()  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
