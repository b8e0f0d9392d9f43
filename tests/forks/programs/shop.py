"""What a program has at the top of a module: locks, and functions that run under one."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import locknut
from locknut import aio

HANGS = 60.0
TURNS = 5
FOLDER = Path(os.environ["SHOP"])

LOCKS = locknut.connect()
LOCK = LOCKS.lock("till", timeout=HANGS)
WAITS_ON_A_LOOP = aio.connect().lock("till", timeout=HANGS)


def count() -> int:
    """How often `step` was done."""
    file = FOLDER / "count"
    return int(file.read_text()) if file.exists() else 0


def step() -> None:
    """What no two may do at the same time: the second would find the first inside."""
    os.close(os.open(FOLDER / "inside", os.O_CREAT | os.O_EXCL))
    (FOLDER / "count").write_text(str(count() + 1))
    os.unlink(FOLDER / "inside")


@LOCKS.locked("till", timeout=HANGS)
def decorated() -> int:
    step()
    return os.getpid()


@locknut.locked("till", timeout=HANGS)
def decorated_before_there_was_a_locks() -> int:
    step()
    return os.getpid()


def work(lock: locknut.Lock = LOCK) -> int:
    """In every way that the top of a module has, and by this lock; who did it."""
    for _ in range(TURNS):
        for each in (lock, LOCK):
            with each:
                step()
        decorated()
        decorated_before_there_was_a_locks()
    return os.getpid()


STEPS = 4 * TURNS
"""What `work` adds to the count."""


async def work_on_a_loop(lock: aio.Lock = WAITS_ON_A_LOOP) -> int:
    for _ in range(TURNS):
        async with lock:
            step()
    return os.getpid()


def until_waiting(processes: int) -> None:
    """Until that many wait for whoever is inside."""
    give_up = threading.Event()
    timer = threading.Timer(HANGS, give_up.set)
    timer.daemon = True
    timer.start()
    while len(LOCK.info().waiters) < processes:
        if give_up.wait(0.02):
            raise TimeoutError(f"not {processes} wait: {LOCK.info()}")
    timer.cancel()
