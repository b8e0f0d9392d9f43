"""What is done while it is interrupted (`stepping.py`), and what must not be left of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from types import FrameType
from typing import Any

import locknut
from locknut.blocking import decorator
from locknut.core.acquiring_all import GATHERED
from tests.api.storm import KINDS as STORMED
from tests.api.storm import plain

Work = Callable[[locknut.Locks], object]


def two_steps(locks: locknut.Locks) -> None:
    lease = locks.lock("x").acquire()
    assert lease is not None
    lease.release()


def two_steps_owned(locks: locknut.Locks) -> None:
    lock = locks.lock("x", owner="me")
    lock.acquire()
    lock.release()


def two_steps_together(locks: locknut.Locks) -> None:
    leases = locks.all("x", "y").acquire()
    assert leases is not None
    leases.release()


def decorated(locks: locknut.Locks) -> None:
    @locks.locked("x")
    def work() -> None:
        pass

    work()


def skipping(locks: locknut.Locks) -> None:
    @locks.locked("x", on_busy="skip")
    def work() -> None:
        pass

    work()


def first(locks: locknut.Locks) -> None:
    """Whatever is done once only, the keeper's start included."""
    with locks.lock("x", ttl=30):
        pass


def fair(locks: locknut.Locks) -> None:
    with locks.lock("x", fair=True):
        pass


def refused(locks: locknut.Locks) -> None:
    with locks.lock("x", owner="other"):
        try:  # noqa: SIM105 -- that would be a call more to be interrupted
            assert locks.lock("x").acquire(timeout=0.001) is None
        except locknut.BackendUnavailable:
            pass  # a busy machine did not even ask in so short a time


def waited(locks: locknut.Locks) -> None:
    """The one before leaves after a while."""
    locks.lock("x", owner="other", max_hold=0.01).acquire()
    with locks.lock("x"):
        pass


def crowded(locks: locknut.Locks) -> None:
    """As many at once as have a connection each, where there may be two."""
    with locks.lock("x"), locks.lock("y"):
        pass


KINDS: dict[str, Callable[[locknut.Locks], None]] = STORMED | {
    each.__name__: each
    for each in (
        two_steps,
        two_steps_owned,
        two_steps_together,
        decorated,
        skipping,
        first,
        fair,
        refused,
        waited,
    )
}
SCARCE = {"crowded": crowded}
"""For clients that have two connections."""


def once(locks: locknut.Locks) -> None:
    with locks.once(f"x{next(_started)}", per="24h"):
        pass


def retried(locks: locknut.Locks) -> None:
    with locks.once(f"x{next(_started)}", per="24h", retry=True):
        pass


def two_steps_once(locks: locknut.Locks) -> None:
    run = locks.once(f"x{next(_started)}", per="24h", retry=True)
    run.acquire()
    run.release(done=False)


def led(locks: locknut.Locks) -> None:
    for _ in locks.election("x").terms():
        break


def led_with(locks: locknut.Locks) -> None:
    for term in locks.election("x").terms():
        with term:
            break


_started = count()
"""A slot is run once, so each run has a name of its own."""
USES: dict[str, Callable[[locknut.Locks], None]] = {
    each.__name__: each for each in (once, retried, two_steps_once, led, led_with)
}


def left_by(locks: locknut.Locks, patience: float) -> str:
    """What is left, once the keeper has cleared up behind the interrupted."""
    client = locks._client
    give_up = time.monotonic() + patience
    while found := _left(locks):
        if time.monotonic() > give_up:
            return found
        time.sleep(0.0002)
    mine = [kept for what, kept in client.runtime.caller().items() if what != GATHERED]
    return f"mine {mine}" if any(map(_kept, mine)) else ""


def exhausted(locks: locknut.Locks, times: int = 3) -> str:
    """Whether something is used up that such a client has little of: its connections."""
    for _ in range(times):
        try:
            crowded(locks)
        except locknut.BackendUnavailable as error:
            return f"used up: {error}"
    return ""


def _kept(what: Any) -> bool:  # a lease, a semaphore's leases, or what a `with` entered
    """Whether this thread believes to have something. A lease that was lost says so when released,
    so it stays.
    """
    return bool(what.held) if isinstance(what, locknut.Lease) else bool(what)


def _left(locks: locknut.Locks) -> str:
    client = locks._client
    if client.holds or client.lines:
        return f"holds {list(client.holds.values())} lines {list(client.lines)}"
    listed = [info for info in locks.list() if "@" not in info.name]  # a slot stays taken
    return f"listed {listed}" if listed else ""


@contextmanager
def settled(url: str, work: Work, at: int) -> Iterator[locknut.Locks]:
    """A client that has done this before, so that what is done once only is done."""
    with locknut.connect(f"{url}{at}") as locks:
        for _ in range(0 if work is first else 2):
            work(locks)
        yield locks


def forget_all(locks: locknut.Locks) -> None:
    locks._client.runtime.caller().clear()


def told(frame: FrameType | None) -> str:
    """The frames, innermost first."""
    found = []
    while frame is not None and frame.f_code.co_name != "traced":
        found.append(f"{frame.f_code.co_name}:{frame.f_lineno}@{frame.f_lasti}")
        frame = frame.f_back
    return " < ".join(found)


def excused(frame: FrameType | None) -> bool:
    """The first instruction of the user's own leaving, which no Python code could take care of."""
    if frame is None or frame.f_back is None:
        return False
    begins = frame.f_code.co_name in LEAVING and frame.f_lasti <= 2
    if frame.f_code.co_name == "__enter__":  # `with lock.acquire()` has it before it enters
        begins = begins and isinstance(frame.f_locals["self"], locknut.Lease)
    return begins and frame.f_back.f_code.co_filename in USERS


LEAVING = ("__exit__", "release", "__enter__")
USERS = (__file__, plain.__code__.co_filename, decorator.__file__)
"""A decorated function's `with` is in `blocking/decorator.py`."""
