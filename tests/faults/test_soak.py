"""Holders and waiters are killed, stopped, forked, cancelled and interrupted at random; locks are
broken by force, and lock files moved away.

Afterwards the checker finds no double hold, every fence in order, and nobody left in a line. Runs
for `LOCKNUT_SOAK_SECONDS` (`make soak DURATION=120`); a failure names its seed.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import locknut
from locknut.backends.file.lock_files import _LOOK_EVERY
from locknut.runtimes import clock
from tests.faults.worker import kinds
from tests.simulation.checker import Assumptions, check
from tests.simulation.checker.history import Event, Journal, Kind, read

SECONDS = float(os.environ.get("LOCKNUT_SOAK_SECONDS", "15"))
MOMENT = 5e-5
"""Seconds: no hold of the workers is shorter than that."""
WORKERS = 6
FREE_WITHIN = 5.0
"""A head that was rung and then killed or stopped is covered by the net of those behind it."""

pytestmark = [pytest.mark.faults, pytest.mark.file]


class Victims:
    """The worker processes, and what is done to them; each deed is told to the history."""

    def __init__(self, url: str, folder: Path, seed: int, *more: str):
        self.url = url
        self.more = more
        self.ttl = float(more[0]) if more else None
        self.folder = folder
        self.chance = random.Random(seed)
        self.deeds: Counter[str] = Counter()
        self._journal = Journal(folder / "deeds.jsonl")
        self._count = 0
        self.workers: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        self._count += 1
        who = f"worker-{self._count}"
        colour = "threads" if self._count % 2 else "asyncio"
        journal = str(self.folder / f"{who}.jsonl")
        program = [sys.executable, "-m", "tests.faults.worker"]
        command = [*program, self.url, journal, who, colour, str(self._count)]
        command += self.more
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        worker = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
        )
        assert worker.stdout is not None
        assert worker.stdout.readline() == b"ready\n"
        self.workers[who] = worker

    def disturb(self) -> None:
        who = self.chance.choice(list(self.workers))
        deed = self.chance.choices(["kill", "pause", "interrupt", "break"], [2, 3, 5, 3])[0]
        self.deeds[deed] += 1
        getattr(self, f"_{deed}")(who)

    def _break(self, _: str) -> None:
        """As an operator does, who has looked or not."""
        gone = (locknut.BackendUnavailable, locknut.StaleFence)
        with locknut.connect(self.url) as locks, suppress(*gone):
            name = self.chance.choice(kinds(locks, self.ttl)).name
            seen = locks.info(name).holders if self.chance.random() < 0.5 else ()
            fence = seen[0].fence if seen else None
            with self.broken(name):
                locks.force_release(name, fence, reason="soak")

    @contextmanager
    def broken(self, name: str, lasts: float = 0.0) -> Iterator[None]:
        """Who came in between is not protected either, or for so many seconds longer. The checker
        looks for a moment in which it happened: it may have been any of these.
        """
        begun = clock.now()
        try:
            yield
        finally:
            took = clock.now() + lasts - begun
            moments = min(1000, int(took / MOMENT)) + 1
            for number in range(moments + 1):
                self.tell("", Kind.BROKEN, name, at=begun + took * number / moments)

    def _kill(self, who: str) -> None:
        # Stopped first, so that nothing it does comes after the moment that is told.
        worker = self.workers.pop(who)
        self._stop(worker)
        self.tell(who, Kind.CRASHED)
        worker.kill()
        worker.wait()
        self._close(worker)
        self.start()

    def _pause(self, who: str) -> None:
        worker = self.workers[who]
        self._stop(worker)
        self.tell(who, Kind.PAUSED)
        time.sleep(self.chance.random() * 0.3)  # the fault itself, not a wait for something
        self.tell(who, Kind.RESUMED)
        worker.send_signal(signal.SIGCONT)

    def _interrupt(self, who: str) -> None:
        self.workers[who].send_signal(signal.SIGINT)

    def _stop(self, worker: subprocess.Popen[bytes]) -> None:
        assert worker.poll() is None, f"it ended by itself, with {worker.returncode}"
        worker.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, worker.pid, os.WSTOPPED)

    def suffer(self, seconds: float, meanwhile: Callable[[], object] = lambda: None) -> list[int]:
        """Work, and be disturbed, for so long; how each of them ended. `meanwhile` may do something
        to the servers.
        """
        try:
            for _ in range(WORKERS):
                self.start()
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                time.sleep(self.chance.random() * 0.1)  # the pace of the faults
                self.disturb()
                meanwhile()
            return self.end()
        finally:
            for worker in self.workers.values():
                worker.kill()
                worker.wait()
                self._close(worker)

    def end(self) -> list[int]:
        for worker in self.workers.values():
            assert worker.stdin is not None
            worker.stdin.close()
        codes = [worker.wait(60) for worker in self.workers.values()]
        for worker in self.workers.values():
            self._close(worker)
        return codes

    def _close(self, worker: subprocess.Popen[bytes]) -> None:
        for pipe in (worker.stdin, worker.stdout):
            if pipe is not None:
                pipe.close()

    def tell(self, who: str, kind: Kind, name: str = "", at: float | None = None) -> None:
        self._journal(Event(clock.now() if at is None else at, who, kind, name))


class FileVictims(Victims):
    """The workers, and their lock files."""

    def disturb(self) -> None:
        if self.chance.random() < 0.85:
            super().disturb()
        else:
            self.deeds["move"] += 1
            self._move()

    def _move(self) -> None:
        """Which lock it is of nobody sees by the name of the file; so all of them are told."""
        places = Path(self.url.removeprefix("file://")).iterdir()
        locks = [each for each in places if each.suffix in (".lock", ".permits")]
        if locks:
            elsewhere = self.folder.parent / f"moved-{self.deeds['move']}"
            # Who has just looked at the path does not look again, and may get what is not there.
            with self.broken("", _LOOK_EVERY / 1e9), suppress(FileNotFoundError):  # just broken
                self.chance.choice(locks).rename(elsewhere)


@pytest.mark.timeout(SECONDS + 120)
@pytest.mark.slow
def test_kills_stops_forks_cancellations_and_interrupts(tmp_path: Path) -> None:
    storm(f"file://{tmp_path}/locks", tmp_path / "journals", SECONDS, who=FileVictims)


def storm(
    url: str,
    folder: Path,
    seconds: float,
    meanwhile: Callable[[], object] = lambda: None,
    who: type[Victims] = Victims,
) -> None:
    """Everything at once, on one engine."""
    seed = int.from_bytes(os.urandom(4))
    print("seed", seed)
    folder.mkdir()
    victims = who(url, folder, seed)
    assert victims.suffer(seconds, meanwhile) == [0] * WORKERS
    with locknut.connect(url) as locks:
        give_up = time.monotonic() + 30
        while left := locks.list():  # an engine frees what the killed had when it misses them
            assert time.monotonic() < give_up, f"ghosts: {left}"
            time.sleep(0.05)
    judge(victims, seed, Assumptions())


def judge(victims: Victims, seed: int, given: Assumptions) -> None:
    """No ghost, and no promise broken."""
    assert_free(victims.url, victims.ttl)
    history = read(victims.folder.glob("*.jsonl"))
    holds = Counter(event.name for event in history if event.kind is Kind.ACQUIRED)
    print(dict(holds), dict(victims.deeds), len(history), "events")
    with locknut.connect(victims.url) as locks:
        assert set(holds) == {lock.name for lock in kinds(locks, victims.ttl)}, (
            "every kind of lock was held"
        )
    violations = check(history, given)
    assert not violations, f"seed {seed}\n" + "\n".join(map(str, violations[:5]))


def assert_free(url: str, ttl: float | None = None) -> None:
    """A newcomer gets everything."""
    with locknut.connect(url) as locks:
        for lock in kinds(locks, ttl):
            lease = lock.acquire(timeout=FREE_WITHIN)
            assert lease is not None, f"{lock.name} is held by a ghost: {lock.info()}"
            lease.release()
