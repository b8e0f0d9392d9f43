"""A process that takes and leaves one name in every way there is, until killed or told to stop.

Whoever is in takes a `flock` of its own kind on another file: a referee that knows nothing of this
engine. It is opened first, so that a killed process lets go of it before it lets go of the lock.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import random
import signal
import sys
import time
from pathlib import Path

from locknut.backends.file.engine import FileEngine
from locknut.core.values import Claim, Mode
from locknut.runtimes.loop import LoopRuntime
from locknut.runtimes.threads import ThreadRuntime
from tests.backends.file.driving import acquire, claim, engine_in, permit, reader, release, run

PERMITS = 3


class Referee:
    def __init__(self, directory: Path) -> None:
        self.lock = os.open(directory / "referee", os.O_RDWR | os.O_CREAT)
        self.permits = [
            os.open(directory / f"permit-{at}", os.O_RDWR | os.O_CREAT) for at in range(PERMITS)
        ]

    def enter(self, held: Claim) -> int:
        if held.mode is Mode.PERMIT:
            return next(fd for fd in self.permits if self._take(fd, fcntl.LOCK_EX))
        kind = fcntl.LOCK_SH if held.mode is Mode.SHARED else fcntl.LOCK_EX
        if not self._take(self.lock, kind):
            raise AssertionError(f"two are in: {held.mode}")
        return self.lock

    def leave(self, fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_UN)

    def _take(self, fd: int, kind: int) -> bool:
        try:
            fcntl.flock(fd, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


class Racer:
    def __init__(self, directory: Path) -> None:
        self.referee = Referee(directory)
        self.engine: FileEngine = engine_in(directory / "locks")
        self.last = 0
        self.grants = 0
        self.longest = 0.0

    def wanted(self) -> Claim:
        kind = random.random()
        if kind < 0.2:
            return permit(PERMITS, fair=random.random() < 0.5)
        return reader() if kind < 0.5 else claim(fair=random.random() < 0.5)

    def used(self, held: Claim, raw: int) -> None:
        fd = self.referee.enter(held)
        self.grants += 1
        if held.mode is not Mode.PERMIT:
            assert raw > self.last, "the number went back"
            self.last = raw
        if random.random() < 0.02:
            time.sleep(0.002)
        self.referee.leave(fd)

    def block(self) -> None:
        held, backend, began = (
            self.wanted(),
            self.engine.blocking(ThreadRuntime()),
            time.monotonic(),
        )
        raw = run(acquire(backend, held, random.choice([0.0, 0.0005, 30.0])))
        self.longest = max(self.longest, time.monotonic() - began)
        if raw is not None:
            self.used(held, raw)
            release(backend, held)

    async def tasks(self) -> None:
        await asyncio.gather(*(self._task() for _ in range(random.choice([4, 20]))))

    async def _task(self) -> None:
        held, backend = self.wanted(), self.engine.asyncio(LoopRuntime())
        task = asyncio.create_task(acquire(backend, held))
        if random.random() < 0.3:
            asyncio.get_running_loop().call_later(random.random() / 1000, task.cancel)
        try:
            raw = await task
            if raw is not None:
                self.used(held, raw)
        except asyncio.CancelledError:
            pass
        finally:
            await backend.release(held)


def main() -> None:
    racer, running = Racer(Path(sys.argv[1])), True

    def stop(*_: object) -> None:
        nonlocal running
        running = False

    signal.signal(signal.SIGTERM, stop)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while running or not racer.grants:
        if random.random() < 0.2:
            asyncio.run(racer.tasks())
        else:
            racer.block()
    sys.stdout.write(f"{racer.grants} {racer.longest}\n")


if __name__ == "__main__":
    main()
