"""The same job is started three times, as a cluster does: one works, the others stand by.

When the working one is killed, a standby takes over at once, with a larger fence.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
from multiprocessing.connection import Connection

import locknut


def worker(folder: str, tell: Connection) -> None:
    """Wait for the job, say so, and do it until somebody stops us."""
    locks = locknut.connect(f"file://{folder}")
    with locks.lock("nightly-report") as lease:
        tell.send((os.getpid(), lease.fence))
        signal.pause()


def main() -> None:
    processes = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        told, tell = processes.Pipe(duplex=False)
        crowd = [processes.Process(target=worker, args=(folder, tell)) for _ in range(3)]
        for process in crowd:
            process.start()
        locks = locknut.connect(f"file://{folder}")
        fences = []
        for _ in crowd:
            pid, fence = told.recv()
            fences.append(fence)
            nobody_else = not told.poll(0.2)
            print(f"process {pid} works (fence {fence}), alone: {nobody_else}")
            assert nobody_else
            assert locks.lock("nightly-report").acquire(blocking=False) is None
            os.kill(pid, signal.SIGKILL)
        for process in crowd:
            process.join()
        assert fences == sorted(set(fences))
    print("Proved: one worker at a time, and every death was followed by a take-over.")


if __name__ == "__main__":
    main()
