"""See Locknut work, in a few seconds: `make demo`, or `python examples/demo.py`.

Several processes count in one shared file: first without a lock, then with one. Then a process that
holds the lock is killed, and the others go on. Nothing is installed, started or left behind.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

import locknut

PROCESSES = 6
ROUNDS = 250
TOTAL = PROCESSES * ROUNDS
WORK = 0.0002
"""Seconds between reading the counter and writing it back: what real programs call work."""

processes = multiprocessing.get_context("spawn")


# What the processes do -----------------------------------------------------------------------


def add_one(counter: Path) -> None:
    """Read, work, write: two processes that do this at the same time lose an update."""
    with counter.open("r+") as file:
        number = int(file.read())
        time.sleep(WORK)
        file.seek(0)
        file.write(f"{number + 1:08d}")


def count_without_lock(folder: Path, tell: Connection) -> None:
    for _ in range(ROUNDS):
        add_one(folder / "counter")
        tell.send_bytes(b"added")


def count_with_lock(folder: Path, tell: Connection) -> None:
    locks = locknut.connect(f"file://{folder}/locks")
    for _ in range(ROUNDS):
        with locks.lock("counter") as lease:
            add_one(folder / "counter")
            with (folder / "fences").open("a") as fences:
                fences.write(f"{lease.fence}\n")
        tell.send_bytes(b"added")


def hold(folder: Path, forever: bool, tell: Connection) -> None:
    """Take the lock, say when and with which fence; then keep it, or give it back at once."""
    locks = locknut.connect(f"file://{folder}/locks")
    with locks.lock("printer") as lease:
        tell.send((time.monotonic(), os.getpid(), lease.fence))
        if forever:
            signal.pause()


# What is shown -------------------------------------------------------------------------------


def say(text: str = "") -> None:
    print(text, flush=True)


def progress(done: int, counter: Path) -> None:
    """A bar on a terminal; nothing in a log."""
    if sys.stdout.isatty() and (done % 10 == 0 or done == TOTAL):
        filled = 40 * done // TOTAL
        bar = "#" * filled + "." * (40 - filled)
        print(f"\r  [{bar}] {done} of {TOTAL}, the file says {read(counter)} ", end="", flush=True)


def read(counter: Path) -> int:
    return int(counter.read_text())


def hammer(folder: Path, count: Callable[[Path, Connection], None]) -> int:
    """Let all processes count at once; how far the counter got."""
    counter = folder / "counter"
    counter.write_text(f"{0:08d}")
    told, tell = processes.Pipe(duplex=False)
    crowd = [processes.Process(target=count, args=(folder, tell)) for _ in range(PROCESSES)]
    for process in crowd:
        process.start()
    tell.close()
    done = 0
    with suppress(EOFError):  # when the last of them has ended
        while told.recv_bytes():
            done += 1
            progress(done, counter)
    if sys.stdout.isatty():
        say()
    for process in crowd:
        process.join()
    if any(process.exitcode for process in crowd):
        raise SystemExit("NOT proved: a process failed")
    return read(counter)


# The three acts ------------------------------------------------------------------------------


def without(folder: Path) -> bool:
    say(f"1. {PROCESSES} processes add 1 to one file, {ROUNDS} times each, WITHOUT a lock:")
    lost = TOTAL - hammer(folder, count_without_lock)
    say(f"   {TOTAL} times added, {TOTAL - lost} arrived: {lost} updates were LOST.\n")
    return lost > 0


def with_lock(folder: Path) -> bool:
    say('2. The same with Locknut:  with locks.lock("counter") as lease: ...')
    lost = TOTAL - hammer(folder, count_with_lock)
    fences = [int(line) for line in (folder / "fences").read_text().split()]
    growing = fences == sorted(set(fences))
    say(f"   {TOTAL} times added, {TOTAL - lost} arrived: {lost} updates were lost.")
    say("   Every hold had a larger fence than the one before, whichever process had it:")
    say(f"   {fences[0]}, then " + ", ".join(f"+{fence - fences[0]}" for fence in fences[1:7]))
    say(f"   ... +{fences[-1] - fences[0]}: {len(fences)} fences, always growing: {growing}\n")
    return lost == 0 and growing and len(fences) == TOTAL


def killed(folder: Path) -> bool:
    say("3. A process takes the lock and is KILLED (kill -9) while the others wait for it:")
    locks = locknut.connect(f"file://{folder}/locks")
    told, tell = processes.Pipe(duplex=False)
    victim = processes.Process(target=hold, args=(folder, True, tell))
    victim.start()
    _, pid, first_fence = told.recv()
    say(f"   process {pid} holds it with fence {first_fence}")
    heirs = [processes.Process(target=hold, args=(folder, False, tell)) for _ in range(3)]
    for process in heirs:
        process.start()
    while len(locks.info("printer").waiters) < len(heirs):
        time.sleep(0.01)
    early = told.poll()
    say(f"   {len(heirs)} others wait in line; kill -9 {pid}")
    moment = time.monotonic()
    victim.kill()
    grants = [told.recv() for _ in heirs if told.poll(20)]
    for when, heir, fence in grants:
        waited = (when - moment) * 1000
        say(f"   {waited:6.2f} ms later process {heir} has it, with fence +{fence - first_fence}")
    for process in [victim, *heirs]:
        process.join(20)
    fences = [first_fence, *(fence for _, _, fence in grants)]
    say("   nobody had to wait for a time limit: the kernel gave the lock back.\n")
    return not early and len(grants) == len(heirs) and fences == sorted(set(fences))


def main() -> int:
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="locknut-demo-") as name:
        folder = Path(name)
        promises = {
            "without a lock updates are lost": without(folder),
            "with Locknut none are, and fences only grow": with_lock(folder),
            "a killed holder holds nobody up": killed(folder),
        }
    for promise, kept in promises.items():
        say(f"   {'yes' if kept else 'NO '}  {promise}")
    verdict = "Proved" if all(promises.values()) else "NOT proved"
    seconds = time.monotonic() - started
    say(f"{verdict}: on this machine, in {seconds:.1f} s, with nothing installed.")
    return 0 if all(promises.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
