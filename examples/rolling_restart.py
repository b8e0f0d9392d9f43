"""Three servers get a new release at the same moment, and restart one after the other.

Each of them takes a lock before it goes out of service, so there is always somebody to answer.
Runs on files of its own, or on the engine that LOCKNUT_URL names.
"""

from __future__ import annotations

import multiprocessing
import os
import secrets
import sys
import tempfile
import time
from multiprocessing.connection import Connection
from typing import Any

import locknut

SERVERS = 3


def restart(number: int, all_down: Any, tell: Connection) -> None:
    """Out of service, and back."""
    tell.send((number, "down"))
    if all_down:
        all_down.wait(60)  # what the lock prevents
    time.sleep(0.05)
    tell.send((number, "up"))


def at_once(_url: str, _namespace: str, number: int, all_down: Any, tell: Connection) -> None:
    restart(number, all_down, tell)


def in_turn(url: str, namespace: str, number: int, _all_down: Any, tell: Connection) -> None:
    locks = locknut.connect(url, namespace=namespace, label=f"server {number}")
    with locks, locks.lock("restart", timeout="10m"):
        restart(number, None, tell)


def deploy(way: Any, url: str, namespace: str) -> int:
    """Tell all servers at once; how many served at the worst moment."""
    processes = multiprocessing.get_context("spawn")
    told, tell = processes.Pipe(duplex=False)
    all_down = processes.Barrier(SERVERS)
    crowd = [
        processes.Process(target=way, args=(url, namespace, number, all_down, tell))
        for number in range(SERVERS)
    ]
    for process in crowd:
        process.start()
    tell.close()  # so that we hear of it if one dies
    serving = least = SERVERS
    for _ in range(2 * SERVERS):
        _, what = told.recv()
        serving += 1 if what == "up" else -1
        least = min(least, serving)
    for process in crowd:
        process.join()
    return least


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        url = os.environ.get("LOCKNUT_URL") or f"file://{folder}"
        namespace = f"example-{secrets.token_hex(4)}"
        without = deploy(at_once, url, namespace)
        print(f"without a lock: {without} of {SERVERS} serve at the worst moment")
        least = deploy(in_turn, url, namespace)
        print(f"with Locknut:   {least} of {SERVERS} serve at the worst moment")
    if least != SERVERS - 1:
        sys.exit("NOT proved")
    print(f"Proved: all {SERVERS} were restarted, and never more than one was away.")


if __name__ == "__main__":
    main()
