"""A program whose main thread is interrupted thousands of times around its locks.

Run as `python storm.py URL KIND SECONDS SEED LONGEST`: it is hit again after LONGEST seconds at the
latest, or later where hardly a round is ended in that time. Prints how often it was, and what was
left.
"""

from __future__ import annotations

import gc
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import locknut

PATIENCE = 20.0
SPARED = 20
"""Of so many hits there is to be a round that was ended; else the next hit may come later."""
DROPPING = (
    "WeakSet.__init__.<locals>._remove",
    "WeakKeyDictionary.__init__.<locals>.remove",
    "WeakValueDictionary.__init__.<locals>.remove",
)
"""What the standard library calls when a weak reference dies: Python drops its exceptions."""


def plain(locks: locknut.Locks) -> None:
    with locks.lock("x"):
        pass


def timed(locks: locknut.Locks) -> None:
    with locks.lock("x", timeout=PATIENCE):
        pass


def nested(locks: locknut.Locks) -> None:
    lock = locks.lock("x")
    with lock, lock:
        pass


def together(locks: locknut.Locks) -> None:
    with locks.all("x", "y"):
        pass


def shared(locks: locknut.Locks) -> None:
    rw = locks.rwlock("x")
    with rw.write(), rw.read():
        pass
    with rw.read():
        pass


def permit(locks: locknut.Locks) -> None:
    with locks.semaphore("x", 1):
        pass


def owned(locks: locknut.Locks) -> None:
    with locks.lock("x", owner="me"):
        pass


def renewed(locks: locknut.Locks) -> None:
    with locks.lock("x", ttl=30) as lease:
        lease.renew()


KINDS: dict[str, Callable[[locknut.Locks], None]] = {
    each.__name__: each for each in (plain, timed, nested, together, shared, permit, owned, renewed)
}


def main(url: str, kind: str, seconds: float, seed: int, longest: float) -> None:
    work = KINDS[kind]
    chance = random.Random(seed)
    locks = locknut.connect(url)
    work(locks)  # now all is imported: CPython's own locks on imports stand no interrupt
    stop = threading.Event()
    rival = threading.Thread(target=compete, args=(locks, work, stop))
    rival.start()
    hits = rounds = 0
    signal.signal(signal.SIGALRM, interrupt)
    begun = time.monotonic()

    def enough() -> bool:
        """At least so long, and on a busy machine until something has happened at all."""
        lasted = time.monotonic() - begun
        return lasted > seconds and ((hits > 20 and rounds > 20) or lasted > 2 * PATIENCE)

    def pause() -> float:
        """A round that waits for the rival may take longer than LONGEST, on a busy machine always:
        then none would ever be ended.
        """
        return chance.uniform(2e-5, longest if rounds * SPARED >= hits else longest * SPARED)

    while not enough():
        try:
            signal.setitimer(signal.ITIMER_REAL, pause())
            while not enough():  # a hit that Python drops must not make this endless
                work(locks)
                rounds += 1
            signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt:
            hits += 1
        except locknut.LocknutError as error:
            signal.setitimer(signal.ITIMER_REAL, 0)
            print("error", repr(error))
            break
    signal.setitimer(signal.ITIMER_REAL, 0)
    stop.set()
    rival.join(PATIENCE)
    print("hits", hits > 20, "rounds", rounds > 20, "rival stuck", rival.is_alive())
    report(locks, url)


def interrupt(_: int, frame: Any) -> None:
    """Not before the first instruction of `__exit__`, which no Python code could take care of, nor
    where Python drops every exception, nor in this very function: on a busy machine the next
    signal comes before it has returned to that first instruction.
    """
    begins = frame.f_code.co_name == "__exit__" and frame.f_lasti <= 2
    if begins or frame.f_code is interrupt.__code__ or dropping(frame):
        signal.setitimer(signal.ITIMER_REAL, 3e-4)
        return
    raise KeyboardInterrupt


def dropping(frame: Any) -> bool:
    while frame is not None:
        if frame.f_code.co_name == "__del__" or frame.f_code.co_qualname in DROPPING:
            return True
        frame = frame.f_back
    return False


def compete(
    locks: locknut.Locks, work: Callable[[locknut.Locks], None], stop: threading.Event
) -> None:
    while not stop.is_set():
        try:
            work(locks)
        except locknut.AcquireTimeout:
            continue


def report(locks: locknut.Locks, url: str) -> None:
    """What is left, once the keeper has cleared up behind the interrupted."""
    gc.collect()
    client = locks._client
    give_up = time.monotonic() + PATIENCE
    while time.monotonic() < give_up and (locks.list() or client.holds or client.lines):
        time.sleep(0.01)
    print("left", locks.list(), list(client.holds.values()), dict(client.lines))
    result: list[Any] = []
    other = locknut.connect(url)
    thread = threading.Thread(target=lambda: result.append(other.lock("x").acquire(timeout=5)))
    thread.start()
    thread.join()
    print("next", bool(result[0]))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5]))
