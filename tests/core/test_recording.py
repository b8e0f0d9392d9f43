"""Real threads tell their history, and the checker tells whether they were kept apart."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import locknut
from tests.simulation.checker import Assumptions, check
from tests.simulation.checker.history import Event, Journal, Kind, read
from tests.simulation.checker.recording import Recorder


def hammer(work: Callable[[int], None], workers: int = 4) -> None:
    threads = [threading.Thread(target=work, args=(i,)) for i in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()


def test_threads_that_exclude_each_other(tmp_path: Path) -> None:
    with locknut.connect("memory:") as locks:

        def work(i: int) -> None:
            journal = Journal(tmp_path / f"{i}.jsonl")
            record = Recorder(journal, f"thread-{i}")
            for _ in range(50):
                with record.holding(locks.lock("name", ttl=30), timeout=30) as lease:
                    assert lease is not None
                    assert lease.held
            journal.close()

        hammer(work)
    history = read(tmp_path.glob("*.jsonl"))
    assert sum(event.kind is Kind.ACQUIRED for event in history) == 200
    assert check(history, Assumptions(told_within=5, idle_within=30)) == []


def test_threads_that_do_not() -> None:
    history: list[Event] = []
    inside = threading.Barrier(2)

    def work(i: int) -> None:
        record = Recorder(history.append, f"thread-{i}")
        with (
            locknut.connect("memory:", namespace=f"apart-{i}") as locks,
            record.holding(locks.lock("name", ttl=30), timeout=30),
        ):
            inside.wait(30)

    hammer(work, 2)
    assert "a" in {violation.rule for violation in check(history)}


def test_renewals_are_told_with_the_next_look() -> None:
    history: list[Event] = []
    record = Recorder(history.append, "p")
    with locknut.connect("memory:") as locks:
        lock = locks.lock("name", ttl=30)
        story = record.called(lock)
        lease = lock.acquire()
        assert lease is not None
        record.acquired(story, lease)
        lease.renew()
        assert record.checked(story, lease)
        lease.release()
    kinds = [event.kind for event in history]
    assert kinds == [Kind.CALLED, Kind.ACQUIRED, Kind.RENEWED, Kind.CHECKED]
    first, later = history[1].until, history[2].until
    assert first is not None
    assert later is not None
    assert first < later
    assert check(history) == []


def test_what_was_not_to_be_had() -> None:
    history: list[Event] = []
    record = Recorder(history.append, "p")
    with locknut.connect("memory:") as locks:
        ours = locks.lock("name", ttl=30)

        def other(_: int) -> None:
            with record.holding(locks.lock("name", ttl=30), timeout=0) as lease:
                assert lease is None

        with ours:
            hammer(other, 1)
    assert [event.kind for event in history] == [Kind.CALLED, Kind.TIMED_OUT]
