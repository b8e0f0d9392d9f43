"""Three hosts get a new release, and none of them switches to it before all are ready.

If one cannot be made ready, all of them stay with the old one. Runs on a database file of its own,
or on the engine that LOCKNUT_URL names, if it has barriers.
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

HOSTS = 3


def alone(_: Any, number: int, switched: Any, tell: Connection) -> None:
    """Each switches as soon as it is ready itself, and the last one is slow."""
    if number == 0:
        for _ in range(HOSTS - 1):
            switched.acquire()
    tell.send("ready")
    tell.send("switched")
    switched.release()


def together(barrier: Any, number: int, _switched: Any, tell: Connection) -> None:
    if number == 0:
        until_others_wait(barrier)  # it is slow here, too
    tell.send("ready")
    barrier.wait()
    tell.send("switched")


def with_one_that_fails(barrier: Any, number: int, _: Any, tell: Connection) -> None:
    if number == 0:
        until_others_wait(barrier)
        barrier.abort()
        tell.send("failed")
        return
    tell.send("ready")
    try:
        barrier.wait()
        tell.send("switched")
    except locknut.BrokenBarrier:
        tell.send("stayed")


def until_others_wait(barrier: Any) -> None:
    while barrier.waiting() < HOSTS - 1:
        time.sleep(0.05)


def host(way: Any, url: str, namespace: str, *given: Any) -> None:
    with locknut.connect(url, namespace=namespace) as locks:
        way(locks.barrier("release", HOSTS, timeout="10m"), *given)


def deploy(way: Any, url: str, namespace: str) -> list[str]:
    """Start all hosts; what they said, in the order in which it happened."""
    processes = multiprocessing.get_context("spawn")
    told, tell = processes.Pipe(duplex=False)
    switched = processes.Semaphore(0)
    crowd = [
        processes.Process(target=host, args=(way, url, namespace, number, switched, tell))
        for number in range(HOSTS)
    ]
    for process in crowd:
        process.start()
    tell.close()  # so that we hear of it when all have ended
    said: list[str] = []
    try:
        while True:
            said.append(told.recv())
    except EOFError:
        pass
    for process in crowd:
        process.join()
    return said


def ready_at_first_switch(said: list[str]) -> int:
    return said[: said.index("switched")].count("ready")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        url = os.environ.get("LOCKNUT_URL") or f"sqlite://{folder}/locks.db"
        namespace = f"example-{secrets.token_hex(4)}"
        without = ready_at_first_switch(deploy(alone, url, namespace))
        print(f"without a barrier: {without} of {HOSTS} are ready when the first one switches")
        ready = ready_at_first_switch(deploy(together, url, namespace))
        print(f"with Locknut:      {ready} of {HOSTS} are ready when the first one switches")
        failed = deploy(with_one_that_fails, url, namespace)
        print(f"one cannot switch: {sorted(failed)}")
    if ready != HOSTS or failed.count("stayed") != HOSTS - 1 or "switched" in failed:
        sys.exit("NOT proved")
    print(f"Proved: all {HOSTS} were ready before one switched, and when one failed nobody did.")


if __name__ == "__main__":
    main()
