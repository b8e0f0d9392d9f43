"""Two clerks lock two accounts in opposite orders: the deadlock is seen, and one clerk gives way.

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


def clerk(url: str, namespace: str, order: list[str], both: Any, tell: Connection) -> None:
    """Transfer money from one account to the other; the one that has to give way begins again.

    The locks are fair, so that it stands in line behind the other one then.
    """
    locks = locknut.connect(url, namespace=namespace, label=f"clerk {order}", deadlocks="raise")
    gave_way = 0
    with locks:
        while True:
            try:
                with locks.lock(order[0], fair=True):
                    if not gave_way:
                        both.wait(60)  # each of them has its first account
                    with locks.lock(order[1], fair=True):
                        tell.send((order, gave_way))
                        return
            except locknut.DeadlockDetected:
                gave_way += 1


def main() -> None:
    processes = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        url = os.environ.get("LOCKNUT_URL") or f"file://{folder}"
        settings = (url, f"example-{secrets.token_hex(4)}")
        both = processes.Barrier(2)
        told, tell = processes.Pipe(duplex=False)
        accounts = ["account:1", "account:2"]
        crowd = [
            processes.Process(target=clerk, args=(*settings, order, both, tell))
            for order in (accounts, accounts[::-1])
        ]
        for process in crowd:
            process.start()
        tell.close()  # so that we hear of it if they die
        with locknut.connect(settings[0], namespace=settings[1]) as operator:
            seen = 0
            while not seen and not told.poll():  # what `locknut deadlocks` shows, too
                for deadlock in operator.waits_for().deadlocks:
                    print(f"seen: {deadlock}")
                    seen += 1
                time.sleep(0.02)
        done = [told.recv() for _ in crowd]
        for process in crowd:
            process.join()
    for order, gave_way in done:
        print(f"the clerk who takes {order[0]} first is done, and gave way {gave_way} time(s)")
    if not seen or sorted(gave_way for _, gave_way in done) != [0, 1]:
        sys.exit("NOT proved")
    print("Proved: the deadlock was seen, exactly one of two gave way, and both came to an end.")


if __name__ == "__main__":
    main()
