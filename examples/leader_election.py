"""Of three schedulers one leads. When it is killed, a stand-in leads, with a larger fence.

Every step of a leader carries the fence of its term, so whoever keeps the book could refuse a
leader of before. Runs on files of its own, or on the engine that LOCKNUT_URL names.
"""

from __future__ import annotations

import multiprocessing
import os
import secrets
import signal
import sys
import tempfile
from multiprocessing.connection import Connection

import locknut

TTL = 5
"""Seconds until an engine with a server notices that a leader is dead; files do at once."""


def candidate(url: str, namespace: str, tell: Connection) -> None:
    """Stand by; while we lead, report one step after the other."""
    locks = locknut.connect(url, namespace=namespace)
    for term in locks.election("scheduler", ttl=TTL).terms():
        with term:
            while not term.lost.wait(0.02):
                tell.send((os.getpid(), term.fence))


def main() -> None:
    processes = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        url = os.environ.get("LOCKNUT_URL") or f"file://{folder}"
        namespace = f"example-{secrets.token_hex(4)}"
        told, tell = processes.Pipe(duplex=False)
        crowd = [processes.Process(target=candidate, args=(url, namespace, tell)) for _ in range(3)]
        for process in crowd:
            process.start()
        tell.close()  # so that we hear of it if they die
        book: list[tuple[int, int]] = []
        with locknut.connect(url, namespace=namespace) as locks:
            election = locks.election("scheduler")
            for _ in crowd:
                before = {pid for pid, _ in book}
                while (step := told.recv())[0] in before:  # the last words of the one before
                    book.append(step)
                book.append(step)
                leader = election.leader()
                print(f"process {step[0]} leads with fence {step[1]}; the engine says: {leader}")
                os.kill(step[0], signal.SIGKILL)
        for process in crowd:
            process.join()
    fences = [fence for _, fence in book]
    leaders = list(dict.fromkeys(pid for pid, _ in book))
    if fences != sorted(fences) or len(leaders) != len(crowd) or len(set(fences)) < len(crowd):
        sys.exit(f"NOT proved: {book}")
    print("Proved: one leader at a time, every death was followed by a term with a larger fence.")


if __name__ == "__main__":
    main()
