"""Processes that take the lock "x" some times each: python taker.py URL TIMES PROCESSES.

Each says "ready" when it is about to, and "done".
"""

from __future__ import annotations

import os
import sys

import locknut
import locknut.backends.sql.postgresql.engine  # before the forks: each would import it


def take(url: str, times: int) -> None:
    with locknut.connect(url, namespace="t") as locks:
        os.write(1, b"ready\n")
        for _ in range(times):
            with locks.lock("x", timeout=90):
                pass
    os.write(1, b"done\n")


if __name__ == "__main__":
    for _ in range(int(sys.argv[3]) - 1):
        if os.fork() == 0:
            break
    take(sys.argv[1], int(sys.argv[2]))
