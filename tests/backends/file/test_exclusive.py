"""One holder at a time: answers, numbers, repeated commands, waiting and its end."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from locknut.backends.file import file_layout, open_engine
from locknut.backends.file.backend import FileBackend
from locknut.core.values import Capability, Renewal
from locknut.runtimes.loop import LoopRuntime
from locknut.runtimes.threads import ThreadRuntime
from tests.backends.file.driving import (
    Place,
    acquire,
    attempt,
    busy,
    claim,
    engine_in,
    granted,
    open_descriptors,
    release,
    run,
    take,
)


def test_one_holds_and_the_other_does_not(backend: FileBackend) -> None:
    first, second = claim(), claim()
    take(backend, first)
    assert busy(backend, second)
    assert release(backend, first)
    take(backend, second)


def test_asking_again_finds_the_same_grant(backend: FileBackend) -> None:
    first = claim()
    assert take(backend, first) == take(backend, first)


def test_release_is_always_safe(backend: FileBackend) -> None:
    first, second, never = claim(), claim(), claim()
    take(backend, first)
    assert busy(backend, second)
    assert not release(backend, never)
    assert not release(backend, second)
    assert release(backend, first)
    assert not release(backend, first)


def test_numbers_grow_and_read_as_time(backend: FileBackend) -> None:
    raws = []
    for _ in range(200):
        held = claim()
        raws.append(take(backend, held))
        release(backend, held)
    assert raws == sorted(set(raws))
    assert abs(raws[-1] * file_layout.RAW_STEP / 1e9 - time.time()) < 60


def test_numbers_go_on_when_the_clock_goes_back(
    backend: FileBackend, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = claim(), claim()
    raw = take(backend, first)
    release(backend, first)
    real = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() - 10**15)
    assert take(engine_in(directory).blocking(ThreadRuntime()), second) == raw + 1


def test_an_unreadable_record_leaves_the_number_to_the_clock(
    backend: FileBackend, directory: Path
) -> None:
    first, second = claim(), claim()
    raw = take(backend, first)
    release(backend, first)
    path = next(directory.glob("*.lock"))
    path.write_bytes(path.read_bytes()[:20])
    assert take(backend, second) > raw


@pytest.mark.parametrize("what_is_left", ["an older record", "zeros", "nothing", "no file"])
def test_the_number_survives_a_power_cut(directory: Path, what_is_left: str) -> None:
    """Nothing is synced: after a reboot the file is as it was some time ago, or empty, or gone."""
    backend = engine_in(directory).blocking(ThreadRuntime())
    first = claim()
    take(backend, first)
    release(backend, first)
    path = next(directory.glob("*.lock"))
    older, raw = path.read_bytes(), 0
    for _ in range(100):
        last = claim()
        raw = take(backend, last)
        release(backend, last)
    if what_is_left == "no file":
        path.unlink()
    else:
        left = {"an older record": older, "zeros": bytes(len(older)), "nothing": b""}
        path.write_bytes(left[what_is_left])
    assert take(engine_in(directory).blocking(ThreadRuntime()), claim()) > raw


def test_two_names_do_not_meet(backend: FileBackend) -> None:
    take(backend, claim("ns:a"))
    take(backend, claim("ns:b"))


def test_two_engines_in_one_process_exclude_each_other(directory: Path) -> None:
    one, two = (
        engine_in(directory).blocking(ThreadRuntime()),
        engine_in(directory).blocking(ThreadRuntime()),
    )
    take(one, claim())
    assert busy(two, claim())


def test_two_connections_of_one_process_know_each_others_claims(directory: Path) -> None:
    one, two = (open_engine(Place(str(directory))).blocking(ThreadRuntime()) for _ in range(2))
    held = claim()
    take(one, held)
    assert busy(two, claim())
    assert run(two.renew([held])) == [Renewal.HELD]
    assert release(two, held)


def test_two_threads_exclude_each_other(backend: FileBackend) -> None:
    inside, worst, total = 0, 0, 0

    def work() -> None:
        nonlocal inside, worst, total
        for _ in range(100):
            held = claim()
            granted_raw = run(acquire(backend, held))
            assert granted_raw is not None
            inside += 1
            worst = max(worst, inside)
            total += 1
            inside -= 1
            release(backend, held)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (worst, total) == (1, 400)


def test_a_blocking_backend_releases_what_an_asyncio_one_took(directory: Path) -> None:
    engine = engine_in(directory)
    held = claim()
    granted(run(engine.asyncio(LoopRuntime()).attempt(held, 0.0)))
    blocking = engine.blocking(ThreadRuntime())
    assert run(blocking.renew([held])) == [Renewal.HELD]
    assert release(blocking, held)
    assert not run(engine.asyncio(LoopRuntime()).release(held))


def test_a_wait_ends_at_its_deadline_and_leaves_the_line(backend: FileBackend) -> None:
    first, second = claim(), claim()
    take(backend, first)
    assert run(acquire(backend, second, timeout=0.02)) is None
    assert run(backend.inspect("ns:a"))[0].waiters == ()


def test_who_gives_up_passes_the_turn_on(backend: FileBackend) -> None:
    first, second, third = claim(), claim(), claim()
    take(backend, first)
    assert busy(backend, second)
    assert busy(backend, second)
    assert busy(backend, third)
    assert busy(backend, third)
    release(backend, first)
    assert busy(backend, third)
    release(backend, second)
    take(backend, third)


def test_a_try_leaves_the_line_with_its_release(backend: FileBackend) -> None:
    first, passer = claim(), claim(label="passer")
    take(backend, first)
    assert busy(backend, passer)
    assert [one.label for one in run(backend.inspect("ns:a"))[0].waiters] == ["passer"]
    release(backend, passer)
    assert run(backend.inspect("ns:a"))[0].waiters == ()


def test_a_command_said_to_be_late_is_not_obeyed(backend: FileBackend) -> None:
    late = claim()
    run(backend.release(late, outcome_unknown=True))
    assert busy(backend, late)
    take(backend, claim())


def test_who_just_came_may_barge_in_unless_fair(backend: FileBackend) -> None:
    first, second = claim(), claim()
    take(backend, first)
    assert busy(backend, second)
    assert busy(backend, second)
    release(backend, first)
    fair, barging = claim(fair=True), claim()
    assert busy(backend, fair)
    take(backend, barging)
    release(backend, barging)
    assert busy(backend, fair)
    take(backend, second)
    release(backend, second)
    take(backend, fair)


def test_renewal_of_what_is_not_held_never_revives(backend: FileBackend) -> None:
    first, second = claim(), claim()
    take(backend, first)
    assert busy(backend, second)
    assert run(backend.renew([first, second, claim()])) == [
        Renewal.HELD,
        Renewal.LOST,
        Renewal.LOST,
    ]
    release(backend, first)
    assert run(backend.renew([first])) == [Renewal.LOST]


def test_nothing_stays_open(directory: Path) -> None:
    before = open_descriptors()
    engine = engine_in(directory)
    backend = engine.blocking(ThreadRuntime())
    for name in range(300):
        first, second = claim(f"ns:{name}"), claim(f"ns:{name}")
        take(backend, first)
        assert run(acquire(backend, second, timeout=0.0)) is None
        release(backend, first)
    assert len(open_descriptors() - before) < 200
    run(backend.close())
    assert open_descriptors() <= before


def test_an_engine_that_is_dropped_closes_its_files(directory: Path) -> None:
    before = open_descriptors()
    backend = engine_in(directory).blocking(ThreadRuntime())
    held = claim()
    take(backend, held)
    release(backend, held)
    del backend
    assert open_descriptors() <= before


def test_it_promises_no_more_than_it_keeps(backend: FileBackend) -> None:
    assert Capability.DURABLE not in backend.capabilities
    assert Capability.LEASE not in backend.capabilities
    assert attempt(backend, claim(fair=True))
