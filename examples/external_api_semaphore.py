"""Four programs share an API that allows two calls at a time: together they make no more.

Runs on files of its own, or on the engine that LOCKNUT_URL names.
"""

from __future__ import annotations

import multiprocessing
import os
import secrets
import sys
import tempfile
import time
from typing import Any

import locknut

LIMIT = 2
PROGRAMS = 4
CALLS = 5
"""Of each program."""


def call(now: Any, most: Any, done: Any) -> None:
    """Somebody else's service, which counts how many call it at once."""
    with now.get_lock():
        now.value += 1
        most.value = max(most.value, now.value)
    time.sleep(0.02)
    with now.get_lock():
        now.value -= 1
        done.value += 1


def careless(_url: str, _namespace: str, begin: Any, *service: Any) -> None:
    begin.wait(60)
    for _ in range(CALLS):
        call(*service)


def careful(url: str, namespace: str, begin: Any, *service: Any) -> None:
    begin.wait(60)
    with locknut.connect(url, namespace=namespace) as locks:
        for _ in range(CALLS):
            with locks.semaphore("api:payments", LIMIT, timeout=60):
                call(*service)


def run(way: Any, url: str, namespace: str) -> tuple[int, int]:
    """Let all programs loose; how many calls were made, and how many at once at most."""
    processes = multiprocessing.get_context("spawn")
    now, most, done = (processes.Value("i", 0) for _ in range(3))
    settings = (url, namespace, processes.Barrier(PROGRAMS), now, most, done)
    crowd = [processes.Process(target=way, args=settings) for _ in range(PROGRAMS)]
    for process in crowd:
        process.start()
    for process in crowd:
        process.join()
    return done.value, most.value


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        url = os.environ.get("LOCKNUT_URL") or f"file://{folder}"
        namespace = f"example-{secrets.token_hex(4)}"
        calls, most = run(careless, url, namespace)
        print(f"without a semaphore: {calls} calls, up to {most} at a time")
        calls, most = run(careful, url, namespace)
        print(f"with Locknut:        {calls} calls, up to {most} at a time")
    if calls != PROGRAMS * CALLS or most > LIMIT:
        sys.exit("NOT proved")
    print(f"Proved: {calls} calls by {PROGRAMS} programs, never more than {LIMIT} at a time.")


if __name__ == "__main__":
    main()
