"""A process that takes and releases locks of all kinds and tells its history, until it is killed.

    python -m tests.faults.worker URL JOURNAL WHO threads|asyncio SEED [TTL]

It says "ready", works until its standard input ends, and exits with 0 if nothing looked wrong from
inside. SIGINT raises KeyboardInterrupt only while the main thread is on its way into a lock.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import locknut
from locknut import Capability, aio
from tests.simulation.checker.history import Journal, Kind
from tests.simulation.checker.recording import Recorder

ended = threading.Event()
HARMFUL = 3
"""How a forked child ends that could do something to its parent's hold."""


class Aim:
    """Whether a thread is on its way into a lock, where an interrupt is to hit it."""

    on = False


main_aim = Aim()


def interrupt(*_: object) -> None:
    if main_aim.on:
        raise KeyboardInterrupt


def kinds(locks: Any, ttl: float | None = None) -> list[Any]:
    """Every kind of lock that the engine has, each under a name of its own."""
    found = [
        locks.lock("plain", timeout=2, ttl=ttl),
        locks.lock("leased", timeout=2, ttl=ttl or 1),
        locks.lock("impatient", timeout=0.002, ttl=ttl),
    ]
    if Capability.FAIR in locks.capabilities:
        found.append(locks.lock("fair", timeout=2, fair=True, ttl=ttl))
    if Capability.SHARED in locks.capabilities:
        rw = locks.rwlock("read-write", ttl=ttl)
        found += [rw.read(), rw.write()]
    if Capability.PERMITS in locks.capabilities:
        found.append(locks.semaphore("permits", 2, timeout=2, ttl=ttl))
    return found


def ttl() -> float | None:
    """What the holds of this process live for; None: as the engine likes it."""
    return float(sys.argv[6]) if len(sys.argv) > 6 else None


def in_a_forked_child(url: str, lock: locknut.Lock, lease: locknut.Lease) -> int:
    """The child's copy of the lease must be inert, and the parent's hold must still stand (S17): if
    the child gets one beside it, the history has both. There it is judged as any other, for a hold
    that was broken, or that a server forgot, excludes nobody.
    """
    try:
        lease.release()
    except locknut.NotHeld:
        pass
    else:
        return HARMFUL
    if lease.mode is not locknut.Mode.EXCLUSIVE:
        return 0
    who = f"child-{os.getpid()}"
    record = Recorder(Journal(Path(f"{sys.argv[2]}.{who}.jsonl")), who)
    beside = locknut.connect(url).lock(lock.name)
    with suppress(locknut.BackendUnavailable), record.holding(beside, timeout=0):
        pass
    return 0


def step(url: str, lock: locknut.Lock, record: Recorder, chance: random.Random, aim: Aim) -> None:
    story = record.called(lock)
    try:
        aim.on = True
        with lock as lease:
            aim.on = False
            record.acquired(story, lease)
            if chance.random() < 0.01:
                fork(url, lock, lease, partial(record.checked, story, lease))
            else:
                ended.wait(chance.random() * 0.002)
            record.tell(Kind.RELEASE_CALLED, lock.name, story)
        record.tell(Kind.RELEASED, lock.name, story)
    except locknut.AcquireTimeout:
        record.tell(Kind.TIMED_OUT, lock.name, story)
    except KeyboardInterrupt:
        record.tell(Kind.CANCELLED, lock.name, story)
    except locknut.LeaseLost:
        pass  # told by its callback
    except locknut.BackendError as error:
        record.tell(Kind.FAILED, lock.name, story, note=type(error).__name__)
    finally:
        aim.on = False


def fork(url: str, lock: locknut.Lock, lease: locknut.Lease, check: Callable[[], object]) -> None:
    """The parent looks often, and at the end: of two renewals between two looks one is not told."""
    child = os.fork()
    if child == 0:
        told = HARMFUL
        try:
            told = in_a_forked_child(url, lock, lease)
        except BaseException:  # noqa: BLE001  # told by the exit code
            traceback.print_exc()
        finally:
            os._exit(told)  # whatever is raised there: no second worker goes on from here
    gone = status = 0
    while not gone:
        gone, status = os.waitpid(child, os.WNOHANG)
        check()
        if not gone:
            time.sleep(0.02)  # no event tells of a child's end
    if os.waitstatus_to_exitcode(status) != 0:
        os._exit(5)


def threads(url: str, record: Recorder, seed: int) -> None:
    locks = locknut.connect(url)

    def loop(number: int) -> None:
        chance = random.Random(seed * 10 + number)
        aim = main_aim if number == 0 else Aim()
        mine = kinds(locks, ttl())
        while not ended.is_set():
            step(url, chance.choice(mine), record, chance, aim)

    others = [threading.Thread(target=loop, args=(number,)) for number in (1, 2)]
    for thread in others:
        thread.start()
    loop(0)
    for thread in others:
        thread.join()
    locks.close()


async def async_step(lock: aio.Lock, record: Recorder, chance: random.Random) -> None:
    story = record.called(lock)  # type: ignore[arg-type]  # the same names in both faces
    inside = False
    try:
        async with lock as lease:
            inside = True
            record.acquired(story, lease)
            try:
                await asyncio.sleep(chance.random() * 0.002)
            finally:
                record.tell(Kind.RELEASE_CALLED, lock.name, story)
    except locknut.AcquireTimeout:
        record.tell(Kind.TIMED_OUT, lock.name, story)
        return
    except asyncio.CancelledError:
        record.tell(Kind.RELEASED if inside else Kind.CANCELLED, lock.name, story)
        raise
    except locknut.LeaseLost:
        return
    except locknut.BackendError as error:
        record.tell(Kind.FAILED, lock.name, story, note=type(error).__name__)
        return
    record.tell(Kind.RELEASED, lock.name, story)


async def tasks(url: str, record: Recorder, seed: int) -> None:
    async with aio.connect(url) as locks:

        async def loop(number: int) -> None:
            chance = random.Random(seed * 10 + number)
            mine = kinds(locks, ttl())
            while not ended.is_set():
                one = asyncio.ensure_future(async_step(chance.choice(mine), record, chance))
                if chance.random() < 0.3:
                    await asyncio.wait([one], timeout=chance.random() * 0.01)
                    one.cancel()
                await asyncio.wait([one])
                if not one.cancelled():
                    one.result()

        await asyncio.gather(*(loop(number) for number in range(4)))


def until_told() -> None:
    sys.stdin.read()
    ended.set()


def main() -> None:
    url, journal, who, colour, seed = sys.argv[1:6]
    signal.signal(signal.SIGINT, interrupt)
    record = Recorder(Journal(Path(journal)), who)
    threading.Thread(target=until_told, daemon=True).start()
    print("ready", flush=True)
    if colour == "threads":
        threads(url, record, int(seed))
    else:
        asyncio.run(tasks(url, record, int(seed)))


if __name__ == "__main__":
    main()
