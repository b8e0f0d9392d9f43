"""The clients of `scale`: one that holds many locks, one that waits for many, many with one each.

Each runs in a process of its own (`slices.Contender`), and does one step whenever it is told to, so
that the server can be asked in between.
"""

from __future__ import annotations

import asyncio
import os
import resource
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import locknut
import locknut.aio
from benchmarks.crews import Board, Lock, Member, wait_for
from benchmarks.holding import memory_of_this
from benchmarks.kinds import Kind, Opened, Pair
from benchmarks.slices import Sample, Slice

OPEN, TAKE, REST, RELEASE = range(4)
"""The steps of one that holds, or waits."""
FILES = 250_000
SPARE = 200
"""So many are given back where there can be no more: a process needs files for itself, and the
engine keeps some of those it had open."""
WARM = 3.0
"""The ttl of the first lock of all: the shortest that every engine grants."""


def _name(group: int, number: int) -> str:
    """All names are equally long, and those of one run are not those of another."""
    return f"job:{group:07}:{number:07}"


def _sockets() -> int:
    """How many connections this process has."""
    found = 0
    for each in Path("/proc/self/fd").iterdir():
        try:
            found += str(each.readlink()).startswith("socket:")
        except OSError:  # that of the listing itself
            continue
    return found


class _Used:
    """What this process used since it was made."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.monotonic(), time.process_time()

    def told(self) -> Sample:
        return {
            "wall": time.monotonic() - self._wall,
            "cpu": time.process_time() - self._cpu,
            "memory": memory_of_this(),
            "connections": _sockets(),
        }


def _may_open_many() -> None:
    """Each lock of `file:` is an open file. Only root gets more than was given to this process."""
    for most in (FILES, resource.getrlimit(resource.RLIMIT_NOFILE)[1]):
        with suppress(ValueError, PermissionError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
            return


def holding(
    url: str, group: int, locks: int, ttl: float | None, seconds: float, most: float
) -> Slice:
    """In a contender: takes so many, for at most so long; rests for `seconds`; releases them."""
    _may_open_many()
    client = locknut.connect(url, namespace="scale")
    options: dict[str, Any] = {} if ttl is None else {"ttl": ttl}
    leases: list[locknut.Lease] = []

    def take() -> Sample:
        stopped = 0.0
        give_up = time.monotonic() + most
        for number in range(locks):
            try:
                lease = client.lock(_name(group, number), **options).acquire()
            except (locknut.LocknutError, OSError):  # as when no more files can be opened
                stopped = 1.0
                for _ in range(min(SPARE, len(leases))):
                    leases.pop().release()
                break
            assert lease is not None
            leases.append(lease)
            if time.monotonic() > give_up:
                break
        return {"taken": len(leases), "refused": stopped}

    def release() -> Sample:
        kept = sum(lease.held for lease in leases)
        for lease in leases:
            with suppress(locknut.LocknutError):  # lost: it is not among those that were kept
                lease.release()
        return {"kept": kept}

    def once() -> None:
        with client.lock("warm", ttl=WARM if options else None):
            time.sleep(WARM / 2)  # the keeper has renewed it, so that it is connected

    steps: dict[int, Callable[[], Any]] = {
        OPEN: once,
        TAKE: take,
        REST: lambda: time.sleep(seconds),
        RELEASE: release,
    }

    def run(step: int) -> Sample:
        used = _Used()
        done = steps[step]()
        return {**used.told(), **(done or {})}

    return run


def waiting(
    url: str, group: int, locks: int, ttl: float | None, seconds: float, alone: bool
) -> Slice:
    """In a contender: so many tasks wait, each for a name of its own that another process holds;
    `alone`, where there can be no other process, another client in this one.
    """
    _may_open_many()
    loop = asyncio.new_event_loop()
    options: dict[str, Any] = {} if ttl is None else {"ttl": ttl}
    tasks: list[asyncio.Task[Any]] = []
    opened: list[locknut.aio.Locks] = []
    held: list[locknut.aio.Lease | None] = []

    async def steps(step: int) -> None:
        if step == OPEN:
            opened.append(locknut.aio.connect(url, namespace="scale"))
            async with opened[0].lock("warm 2", **options):
                pass
            other = locknut.aio.connect(url, namespace="scale")
            names = [_name(group, number) for number in range(locks if alone else 0)]
            held.extend([await other.lock(name).acquire() for name in names])
        elif step == TAKE:
            for number in range(locks):
                lock = opened[0].lock(_name(group, number), **options)
                tasks.append(asyncio.ensure_future(lock.acquire()))
            await asyncio.sleep(seconds)  # until all of them stand in line
        elif step == REST:
            await asyncio.sleep(seconds)

    def run(step: int) -> Sample:
        used = _Used()
        loop.run_until_complete(steps(step))
        return {**used.told(), "waiting": sum(not task.done() for task in tasks)}

    return run


START = 0


def _own_names(url: str, ttl: float | None) -> Opened:
    """Every caller has a lock of its own: nobody waits for anybody."""
    client = locknut.connect(url, namespace="scale")
    options: dict[str, Any] = {} if ttl is None else {"ttl": ttl}
    count = iter(range(10**9))

    def opened(_name: str) -> Pair:
        lock = client.lock(f"own:{os.getpid():09}:{next(count):03}", **options)
        return Pair(lock.acquire, lock.release)

    return opened


async def _pairs(board: Board, me: int, seconds: float, lock: Lock) -> tuple[int, float]:
    await lock.acquire()
    await lock.release()  # connected
    board[1 + me] = 1
    while not board[START]:
        await lock.pause(0.001)
    cpu, until, done = time.thread_time(), time.monotonic() + seconds, 0
    while time.monotonic() < until:
        await lock.acquire()
        await lock.release()
        done += 1
    return done, time.thread_time() - cpu


def pairs(
    url: str, ttl: float | None, shape: str, size: int, seconds: float, began: Callable[[], object]
) -> tuple[float, float]:
    """How many pairs per second they make together, and the client's processor time of one."""
    kind = Kind(partial(_own_names, ttl=ttl))
    board = Board(1 + size)
    roles = [partial(_pairs, board, me, seconds) for me in range(size)]
    teams = [[role] for role in roles] if shape == "processes" else [roles]
    crew = [Member(kind, url, *team) for team in teams]
    try:
        wait_for(lambda: all(board[1 + me] for me in range(size)), crew)
        began()
        board[START] = 1
        found: list[tuple[int, float]] = [each for member in crew for each in member.results()]
    finally:
        for member in crew:
            member.stop()
    done = sum(count for count, _ in found)
    return done / seconds, sum(cpu for _, cpu in found) / max(1, done)
