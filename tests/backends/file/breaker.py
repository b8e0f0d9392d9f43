"""A process that takes one name, and breaks whatever hold of it others are seen to have.

In a file of its own kind, under a `flock`, stands the highest number that was ever used inside.
"""

from __future__ import annotations

import fcntl
import json
import os
import random
import signal
import sys
from contextlib import suppress

from locknut.errors import BackendUnavailable
from locknut.runtimes.threads import ThreadRuntime
from tests.backends.file.driving import acquire, claim, engine_in, release, run

NAME = "ns:a"


class Entered:
    """The highest number that anybody came in with."""

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT)

    def highest(self) -> int:
        return int.from_bytes(os.pread(self._fd, 8, 0), "big")

    def note(self, raw: int) -> None:
        fcntl.flock(self._fd, fcntl.LOCK_EX)
        os.pwrite(self._fd, max(raw, self.highest()).to_bytes(8, "big"), 0)
        fcntl.flock(self._fd, fcntl.LOCK_UN)


class Breaker:
    def __init__(self, directory: str, entered: str) -> None:
        self.backend = engine_in(directory).blocking(ThreadRuntime())
        self.entered = Entered(entered)
        self.grants = 0
        self.broken: list[int] = []
        self.told: list[int] = []

    def hold(self) -> None:
        held, before = claim(), self.entered.highest()
        raw = run(acquire(self.backend, held, 0.05))
        if raw is None:
            return
        self.grants += 1
        assert raw > before, "the number went back"
        self.entered.note(raw)
        overtaken = self.entered.highest() > raw
        if not release(self.backend, held):
            self.told.append(raw)
        else:
            assert not overtaken, "somebody else was in, and we were not told"

    def break_one(self) -> None:
        for info in run(self.backend.inspect(NAME)):
            for holder in info.holders:
                # One who breaks may be stopped amid it: then the others are told to ask again.
                with suppress(BackendUnavailable):
                    if holder.raw and run(self.backend.break_hold(NAME, holder.raw)):
                        self.broken.append(holder.raw)


def main() -> None:
    breaker, running = Breaker(sys.argv[1], sys.argv[2]), True

    def stop(*_: object) -> None:
        nonlocal running
        running = False

    signal.signal(signal.SIGTERM, stop)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while running:
        breaker.break_one() if random.random() < 0.2 else breaker.hold()
    told = {"grants": breaker.grants, "broken": breaker.broken, "told": breaker.told}
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main()
