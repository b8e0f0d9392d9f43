"""The programs of `make demo-ops` that get into trouble: one process each, given its part and URL.

python scripts/trouble.py contender redis://localhost web-1
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Iterator
from itertools import count

import locknut

chance = random.Random()  # noqa: S311  # a play


def contender(locks: locknut.Locks) -> Iterator[None]:
    """One of many that want the same stock."""
    while True:
        with locks.lock("inventory:17"):
            yield
            time.sleep(chance.uniform(0.1, 0.6))


def nightly(locks: locknut.Locks) -> Iterator[None]:
    """Reports take a moment, until one of them hangs."""
    for number in count():
        with locks.lock(f"report:{number}"):
            yield
            time.sleep(600.0 if number == 8 else 0.4)


def transfer(first: str, second: str) -> Callable[[locknut.Locks], Iterator[None]]:
    """Two transfers in opposite directions, each with one account in its hand; again and again,
    until they meet in the middle.
    """

    def take(locks: locknut.Locks) -> Iterator[None]:
        while True:
            with locks.lock(first):
                yield
                time.sleep(1.0)
                with locks.lock(second):
                    yield

    return take


def shipping(locks: locknut.Locks) -> Iterator[None]:
    """It will be stopped in the middle, and its lease will run out: not so soon that nobody sees
    that it is not renewed.
    """
    with locks.lock("order:42", ttl=10):
        yield
        time.sleep(600.0)


def settling(locks: locknut.Locks) -> Iterator[None]:
    """It hangs, and somebody will break its lock."""
    with locks.lock("payments:settle"):
        yield
        time.sleep(600.0)


def reader(locks: locknut.Locks) -> Iterator[None]:
    while True:
        with locks.rwlock("catalog").read():
            yield
            time.sleep(chance.uniform(0.5, 2.0))


def caller(locks: locknut.Locks) -> Iterator[None]:
    while True:
        with locks.semaphore("api:stripe", 3):
            yield
            time.sleep(chance.uniform(0.3, 1.5))


PARTS: dict[str, Callable[[locknut.Locks], Iterator[None]]] = {
    "contender": contender,
    "nightly": nightly,
    "debit": transfer("account:1", "account:2"),
    "credit": transfer("account:2", "account:1"),
    "shipping": shipping,
    "settling": settling,
    "reader": reader,
    "caller": caller,
}


def main(part: str, url: str, label: str) -> None:
    """Play it, and say when the first lock is held."""
    try:
        with locknut.connect(url, label=label, history=1000) as locks:
            for step, _ in enumerate(PARTS[part](locks)):
                if step == 0:
                    print("held", flush=True)
    except (locknut.LeaseLost, KeyboardInterrupt, BrokenPipeError):
        return


if __name__ == "__main__":
    main(*sys.argv[1:])
