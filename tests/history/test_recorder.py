"""Writing history: in batches, behind everybody, and never in anybody's way."""

from __future__ import annotations

import asyncio
import gc
import logging
import multiprocessing
import subprocess
import sys
import threading
import time
import weakref
from typing import Any

import pytest

import locknut
from locknut import ConfigurationError, Unsupported, aio
from locknut.core import pacing, recording, renewing
from locknut.core.history_entries import Noted, entries
from locknut.core.recording import ROUTINE, EventQueue
from locknut.core.values import Event
from locknut.opening import Settings
from locknut.testing.fakes import fake_locks
from tests.history.looking import Ledger, connect, eventually, kinds
from tests.metrics.test_costs import calls

pytestmark = pytest.mark.memory


def threads_of_history() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "locknut-history"]


PAIR = [("granted", "x"), ("released", "x")]
"""What is written when "x" was held once. On a busy machine it may come in two batches."""


def test_entries_are_written_without_a_close(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "PAUSE", 4.0)  # what stands still for less makes no two of them
    ledger = Ledger()
    with connect(ledger, history=50) as locks:
        with locks.lock("x"):
            pass
        assert kinds(eventually(locks.history)) == PAIR
        assert ledger.writings == 1, "one batch for both"


LOST = Event("lost", "x", "memory", reason="broken")


def test_closing_writes_what_is_still_to_be_emitted() -> None:
    """The keeper's events, and those behind them, are emitted aside."""
    ledger = Ledger()
    locks = connect(ledger, history=50)
    told = threading.Event()
    locks._client.runtime.aside(lambda: told.wait(60))
    locks._client.emit_event(LOST, aside=True)
    threading.Timer(0.1, told.set).start()
    locks.close()
    with connect(ledger) as reader:
        assert kinds(eventually(reader.history)) == [("lost", "x")]


def test_closing_writes_what_is_still_to_be_emitted_on_a_loop() -> None:
    ledger = Ledger()

    async def story() -> None:
        locks = aio.Locks(ledger, Settings(history=50))
        async with locks.lock("y"):
            pass
        locks._client.emit_event(LOST, aside=True)
        await locks.close()

    asyncio.run(story())
    with connect(ledger) as reader:
        found = eventually(reader.history)
    assert ("lost", "x") in kinds(found)


def test_a_history_that_hangs_delays_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pacing, "FLUSH", 0.2)
    ledger = Ledger()
    ledger.open.clear()
    locks = connect(ledger, history=50)
    renewals: list[str] = []
    renew_all = renewing.renew_all

    async def counted(*args: Any) -> None:
        renewals.append("renewed")
        await renew_all(*args)

    monkeypatch.setattr(renewing, "renew_all", counted)
    lease = locks.lock("kept", ttl=3.0).acquire()
    assert lease is not None
    assert ledger.asked.wait(30)
    for number in range(1000):
        with locks.lock(f"{number}"):
            pass
    before = len(renewals)
    eventually(lambda: len(renewals) > before)
    lease.check()
    lease.release()
    began = time.monotonic()
    locks.close()
    assert time.monotonic() - began < 10, "closing waits for a short time only"
    ledger.open.set()
    eventually(lambda: not threads_of_history())


def test_what_closing_did_not_wait_for_is_written_behind_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pacing, "FLUSH", 0.01)
    ledger = Ledger()
    ledger.open.clear()
    with connect(ledger, history=50) as locks, locks.lock("x"):
        pass
    assert connect(ledger).history() == []
    ledger.open.set()
    eventually(lambda: kinds(connect(ledger).history()) == PAIR)


def test_what_does_not_fit_is_counted_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "PAUSE", 3600.0)
    ledger = Ledger()
    with connect(ledger, history=500) as locks:
        for number in range(30):
            with locks.lock("hot"):
                pass
            with locks.lock(f"cool {number % 3}"):
                pass
        locks.lock("bad").acquire()
        locks.force_release("bad")
    found = connect(ledger).history()
    routine = [each for each in found if each.name.startswith(("hot", "cool"))]
    assert len([each for each in routine if each.name == "hot"]) == 10, "it leaves room"
    assert ("broken", "bad") in kinds(found)
    (omitted,) = [each for each in found if each.kind == "omitted"]
    assert omitted.reason == "40 granted, 40 released"


def test_a_queue_is_bounded_in_all() -> None:
    queue = EventQueue(5, 2)
    for number in range(100):
        queue.add(Noted(f"a-{number}", 0.0, Event("granted", f"{number}", "memory")))
    batch = queue.take(lambda: "a-100", 1.0)
    assert [each.event.kind for each in batch] == ["granted"] * 5 + ["omitted"]
    assert queue.take(lambda: "a-101", 2.0) == batch, "until it is answered"


def test_a_failure_is_told_once_and_what_was_not_written_comes_later(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(recording, "PAUSE", 0.01)
    monkeypatch.setattr(recording, "RETRY_FIRST", 0.01)
    ledger = Ledger()
    ledger.refuses = True
    with caplog.at_level(logging.WARNING, "locknut"), connect(ledger, history=50) as locks:
        with locks.lock("x"):
            pass
        eventually(lambda: ledger.writings > 3)
        ledger.refuses = False
        eventually(lambda: kinds(locks.history()) == PAIR)
    told = [each for each in caplog.records if "history cannot be written" in each.getMessage()]
    assert len(told) == 1
    assert "the ledger is closed" in told[0].getMessage()


def test_a_lost_answer_makes_no_double(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "PAUSE", 0.01)
    monkeypatch.setattr(recording, "RETRY_FIRST", 0.01)
    ledger = Ledger()
    ledger.loses_answers = 2
    with connect(ledger, history=50) as locks:
        with locks.lock("x"):
            pass
        eventually(lambda: not ledger.loses_answers and set(kinds(locks.history())) == set(PAIR))
        assert len(ledger.streams[f"locknut:history:{ROUTINE}"]) >= 4, "this test can fail"
        assert kinds(locks.history()) == PAIR


def test_a_late_writing_does_not_change_the_order_of_its_process() -> None:
    def text(number: int, kind: str, age: float) -> str:
        return f'{{"id":"a-{number}","age":{age},"kind":"{kind}","name":"x"}}'

    slow = [(107.0, text(1, "granted", 2.0)), (107.0, text(3, "released", 1.0))]
    assert [(each.kind, each.time) for each in entries([*slow, (103.0, text(2, "lost", 0.5))])] == [
        ("granted", 102.5), ("lost", 102.5), ("released", 106.0),
    ]  # fmt: skip
    again = (110.0, text(2, "lost", 2.0))
    assert entries([again, *slow, (103.0, text(2, "lost", 0.5))])[1].time == 102.5


def test_the_thread_ends_and_the_connection_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "PAUSE", 0.01)
    monkeypatch.setattr(recording, "IDLE", 0.05)
    ledger = Ledger()
    with connect(ledger, history=50) as locks:
        for round_ in (1, 2):
            with locks.lock("x"):
                pass
            eventually(lambda: not threads_of_history())
            assert len(locks.history()) == 2 * round_
        closed = ledger.closed
        assert closed >= 2
    eventually(lambda: not threads_of_history())


def test_a_thread_that_cannot_start_harms_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger()
    with connect(ledger, history=50) as locks:
        recorder: Any = locks._client.recorder
        start = recorder._start

        def none_left(_work: Any) -> None:
            raise RuntimeError("can't start new thread")

        recorder._start = none_left
        with locks.lock("x"):
            pass
        recorder._start = start
        with locks.lock("y"):
            pass
    found = kinds(connect(ledger).history())
    assert found == [(kind, name) for name in "xy" for kind in ("granted", "released")]


def test_an_unused_locks_is_not_kept_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "IDLE", 0.05)
    ledger = Ledger()
    locks = connect(ledger, history=50)
    with locks.lock("x"):
        pass
    client = locks._client
    known = weakref.ref(client)
    del locks, client
    eventually(lambda: gc.collect() >= 0 and known() is None)


def test_off_it_costs_not_one_call() -> None:
    def pairs(**settings: Any) -> list[str]:
        with connect(Ledger(), **settings) as locks:

            def pair() -> None:
                with locks.lock("x"):
                    pass

            return calls(pair)

    assert not [each for each in pairs() if "ecord" in each]
    assert [each for each in pairs(history=5) if "ecord" in each], "this test can fail"


def test_nobody_imports_the_recorder_by_accident() -> None:
    program = """
import sys
import locknut, locknut.aio
locknut.connect("memory:").lock("x").acquire().release()
print([name for name in sys.modules if name.startswith("locknut.core.recording")])
"""
    command = [sys.executable, "-c", program]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "[]\n"


def test_the_url_can_ask_for_it() -> None:
    with locknut.connect("memory:by-url?history=20") as locks:
        with locks.lock("x"):
            pass
        assert eventually(locks.history)
    with pytest.raises(ConfigurationError, match="history"):
        locknut.connect("memory:by-url?history=lots")
    with pytest.raises(Unsupported, match="history"):
        locknut.connect("memcached://localhost?history=20")


def test_asyncio_writes_on_the_same_thread_of_its_own() -> None:
    async def main() -> None:
        ledger = Ledger()
        async with aio.Locks(ledger, Settings(history=20)) as locks:
            async with locks.lock("x"):
                pass
            await locks.close()
        async with aio.Locks(ledger, Settings()) as locks:
            assert kinds(await locks.history("x")) == [("granted", "x"), ("released", "x")]
            assert await locks.history("y") == []

    asyncio.run(main())


def _in_child(locks: locknut.Locks, answers: Any) -> None:
    with locks.lock("child"):
        pass
    locks.close()
    answers.put(kinds(locknut.connect("memory:forked").history()))


def test_a_forked_child_begins_with_an_empty_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "PAUSE", 3600.0)
    fork = multiprocessing.get_context("fork")
    with locknut.connect("memory:forked", history=20) as locks:
        with locks.lock("parent"):
            pass
        answers = fork.Queue()
        child = fork.Process(target=_in_child, args=(locks, answers))
        child.start()
        assert answers.get(timeout=30) == [("granted", "child"), ("released", "child")]
        child.join(30)
        assert locks.history() == []
        recorder: Any = locks._client.recorder
        assert recorder._queues[ROUTINE].waiting(), "the parent's is not touched"


def test_a_program_that_just_ends_has_written() -> None:
    program = """
import atexit, locknut
from locknut.core import pacing, recording
recording.PAUSE = 3600.0
pacing.FLUSH = 60.0
reader = locknut.connect("memory:end")
def look():
    print([each.kind for each in reader.history()])
atexit.register(look)  # before ours: it is called after
locks = locknut.connect("memory:end", history=20)
with locks.lock("x"): pass
import locknut.opening as opening
atexit.unregister(opening._at_exit); atexit.register(opening._at_exit)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.stdout == "['granted', 'released']\n", done.stderr


def test_fakes_are_never_written_into_a_real_engine() -> None:
    ledger = Ledger()
    locks = connect(ledger, history=20)
    with fake_locks(), locks.lock("faked"):
        assert locks.history() == [], "a fake engine has none"
    with locks.lock("real"):
        pass
    locks.close()
    assert kinds(connect(ledger).history()) == [("granted", "real"), ("released", "real")]


@pytest.mark.slow
def test_an_event_at_the_moment_when_the_thread_ends_is_not_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The thread that ends must not take the place of the next one away."""
    monkeypatch.setattr(recording, "PAUSE", 0.001)
    monkeypatch.setattr(recording, "IDLE", 0.001)
    ledger = Ledger()
    with connect(ledger, history=5000) as locks:
        for number in range(200):
            with locks.lock(f"{number}"):
                pass
            eventually(lambda: ("released", f"{number}") in kinds(locks.history()))  # noqa: B023
    eventually(lambda: not threads_of_history())
