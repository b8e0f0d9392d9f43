"""Many processes, all modes, timeouts, cancels, kills and stops: never two where one may be."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from locknut.runtimes.threads import ThreadRuntime
from tests.backends.file.driving import (
    claim,
    engine_in,
    open_descriptors,
    permit,
    program,
    run,
    take,
)

SECONDS = 4.0
RACERS = 5


def _start(directory: Path) -> subprocess.Popen[bytes]:
    racer = program("racer", directory, stderr=subprocess.PIPE)
    assert racer.stdout is not None
    assert racer.stdout.readline() == b"ready\n"
    return racer


def test_kills_and_stops_leave_no_double_hold_and_no_ghost(tmp_path: Path) -> None:
    racers = [_start(tmp_path) for _ in range(RACERS)]
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        at = random.randrange(RACERS)
        racers[at].send_signal(random.choice([signal.SIGKILL, signal.SIGSTOP]))
        engine_in(tmp_path / "locks").clean(unused_for=0.0)
        racers[at].send_signal(signal.SIGCONT)
        time.sleep(0.05)  # the rhythm of the kills, not a wait for anything
        if racers[at].poll() is not None:
            _told(racers[at])
            racers[at] = _start(tmp_path)
    for racer in racers:
        racer.terminate()
    told = [_told(racer) for racer in racers]
    assert sum(grants for grants, _ in told) > 0
    _nobody_is_left(tmp_path / "locks")


def _told(racer: subprocess.Popen[bytes]) -> tuple[int, float]:
    said, failed = racer.communicate(timeout=60)
    assert b"Traceback" not in failed, failed.decode()
    grants, longest = (said.split() or [b"0", b"0"])[:2]
    return int(grants), float(longest)


def _nobody_is_left(directory: Path) -> None:
    backend = engine_in(directory).blocking(ThreadRuntime())
    assert run(backend.inspect()) == []
    before = open_descriptors()
    take(backend, claim())
    for _ in range(3):
        take(backend, permit(3))
    assert open_descriptors() - before


def test_threads_that_give_up_doubtful_claims_do_not_trip_over_each_other(tmp_path: Path) -> None:
    """Only so many are remembered: who forgets the oldest is not alone (the keeper does it too)."""
    backend = engine_in(tmp_path / "locks").blocking(ThreadRuntime())
    failed: list[BaseException] = []

    def give_up() -> None:
        try:
            for _ in range(8000):
                run(backend.release(claim(), outcome_unknown=True))
        except BaseException as error:  # noqa: BLE001 -- whatever it is
            failed.append(error)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=give_up) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert not failed
