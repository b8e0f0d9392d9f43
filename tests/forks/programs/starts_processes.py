"""A program that starts processes, and gives each of them a lock: `fork`, `spawn`, `forkserver`."""

from __future__ import annotations

import multiprocessing
import sys
from typing import Any

import locknut
from tests.forks.programs import shop


def work(lock: locknut.Lock, answers: Any) -> None:
    answers.put(shop.work(lock))


def main(method: str) -> None:
    context: Any = multiprocessing.get_context(method)
    answers = context.SimpleQueue()
    lock = shop.LOCKS.lock("till", timeout=shop.HANGS)
    with lock:  # what was used before a fork, and is held while they start
        workers = [context.Process(target=work, args=(lock, answers)) for _ in range(3)]
        for worker in workers:
            worker.start()
        shop.until_waiting(3)
        assert shop.count() == 0
    found = {answers.get() for _ in workers}
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    assert len(found) == 3
    assert shop.count() == 3 * shop.STEPS


if __name__ == "__main__":
    main(sys.argv[1])
