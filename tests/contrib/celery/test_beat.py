"""Several beats of which one sends: killed, stopped, without its lock, and without an engine."""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest
from celery import Celery
from celery.beat import Scheduler

import locknut
from locknut.contrib.celery_beat import LeaderMixin
from tests.contrib.celery.conftest import Shop
from tests.contrib.programs import HANGS, until

pytestmark = pytest.mark.faults

BEAT = "celery-beat:shop"
LEADER = ("-S", "locknut.contrib.celery_beat:LeaderScheduler", "-l", "info")


class Beat(LeaderMixin, Scheduler):  # type: ignore[misc]  # Celery has no types
    """Without a file, and what it sends is seen here."""

    lock_ttl = 30.0

    def __init__(self, app: Any, locks: locknut.Locks):
        self.locks = locks
        self.sent: list[str] = []
        super().__init__(app)

    def apply_async(self, entry: Any, **_: object) -> None:
        self.sent.append(entry.name)

    @property
    def producer(self) -> None:
        """No broker is needed."""

    def make_due(self, name: str = "daily") -> None:
        """Let the time of an entry come, and go through the schedule."""
        entry = self.schedule[name]
        entry.last_run_at = entry.default_now() - entry.schedule.run_every * 2
        self._heap = None
        while self.tick() == 0:
            pass


@pytest.fixture
def app() -> Iterator[Any]:
    made: Any = Celery("beats", broker="memory://")
    made.conf.beat_schedule = {"daily": {"task": "report", "schedule": 86400.0}}
    yield made
    made.close()


@pytest.fixture
def places() -> Iterator[list[locknut.Locks]]:
    made = [locknut.connect("memory:beats"), locknut.connect("memory:beats")]
    yield made
    for each in made:
        each.close()


def two(app: Any, places: list[locknut.Locks]) -> tuple[Beat, Beat]:
    leader, stand_in = (Beat(app, each) for each in places)
    leader.tick()
    stand_in.tick()
    assert (leader.leads, stand_in.leads) == (True, False)
    return leader, stand_in


def test_a_stand_in_does_not_repeat_what_the_leader_has_sent(
    app: Any, places: list[locknut.Locks]
) -> None:
    """Its own entries were never run: a beat that only waits would send them all when it leads."""
    leader, stand_in = two(app, places)
    leader.make_due()
    stand_in.make_due()
    stand_in.tick()  # the leader is seen once more, after that
    leader.close()
    stand_in.tick()
    assert stand_in.leads
    assert (leader.sent, stand_in.sent) == (["daily"], [])
    stand_in.make_due()
    assert stand_in.sent == ["daily"]


def test_a_stand_in_makes_up_for_what_a_dead_leader_may_not_have_sent(
    app: Any, places: list[locknut.Locks], caplog: pytest.LogCaptureFixture
) -> None:
    """A daily report that falls due in the seconds that nobody leads would be gone for a day."""
    dead = places[0].lock("celery-beat:beats", 2.0, auto_renew=False).acquire()
    assert dead is not None
    stand_in = Beat(app, places[1])
    stand_in.lock_ttl = 2.0
    stand_in.make_due()
    assert (stand_in.leads, stand_in.sent) == (False, [])
    until(lambda: stand_in.tick() and stand_in.leads, "the lock runs out")
    assert stand_in.sent == ["daily"]
    assert "makes up for daily" in caplog.text


def test_a_leader_that_loses_its_lock_gives_up_the_tick_and_stands_by(
    app: Any, places: list[locknut.Locks]
) -> None:
    leader, stand_in = two(app, places)
    assert places[1].force_release("celery-beat:beats", reason="a test")
    until(lambda: not leader.leads, "the loss is noticed")
    stand_in.tick()
    leader.make_due()
    assert (leader.leads, stand_in.leads) == (False, True)
    assert leader.sent == []
    leader.tick()
    stand_in.close()
    leader.tick()
    assert leader.leads


def test_without_an_engine_nobody_leads_and_beat_goes_on(
    app: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "locknut.contrib.celery_beat")
    with locknut.connect("redis://127.0.0.1:1") as nowhere:
        beat = Beat(app, nowhere)
        beat.make_due()
        assert beat.tick() <= 1.0
        assert (beat.leads, beat.sent) == (False, [])
        assert caplog.text.count("sends nothing while nobody can lead") == 1
        beat.close()


@pytest.mark.slow
def test_real_beats_take_over_from_each_other(shop: Shop) -> None:
    logs = [shop.folder / name for name in ("one", "two", "three")]

    def says(number: int, words: str, times: int = 1) -> None:
        until(lambda: _count(logs[number], words) >= times, f"{words}: {logs[number]}")

    def beat(number: int) -> Any:
        own = shop.folder / f"schedule-{number}"
        return shop.celery("beat", *LEADER, "-s", str(own), "-f", str(logs[number]))

    with beat(0) as one:
        says(0, "Sending due task often", 2)
        with beat(1) as two:
            says(1, "beat stands by")
            with _hold(shop.locks):  # both are out
                says(0, "beat stands by")
                assert (one.poll(), two.poll()) == (None, None)
                before = [_count(log, "Sending due") for log in logs]
                over = time.monotonic() + 2.0
                until(lambda: time.monotonic() > over, "several entries fall due")
                assert [_count(log, "Sending due") for log in logs] == before
            until(lambda: sum(_count(log, "beat leads") for log in logs) == 2, "one leads again")
            first = 0 if _count(logs[0], "beat leads") == 2 else 1
            sent = _count(logs[first], "Sending due task often")
            says(first, "Sending due task often", sent + 2)
            (one, two)[first].send_signal(signal.SIGKILL)
            says(1 - first, "Sending due task often", _count(logs[1 - first], "Sending") + 2)
            (one, two)[1 - first].send_signal(signal.SIGKILL)
            with beat(2) as three:
                says(2, "Sending due task often", 2)
                three.send_signal(signal.SIGTERM)
                assert three.wait(HANGS) == 0
    assert not shop.locks.info(BEAT).locked


def _count(log: Any, words: str) -> int:
    return int(log.read_text().count(words)) if log.exists() else 0


def _hold(locks: locknut.Locks) -> locknut.Lease:
    """Break the leader's lock and have it instead, before a beat looks again."""

    def taken() -> locknut.Lease | None:
        locks.force_release(BEAT, reason="a test")
        return locks.lock(BEAT).acquire(blocking=False)

    lease: locknut.Lease = until(taken, "the lock is ours")
    return lease
