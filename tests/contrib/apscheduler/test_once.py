"""Jobs that several schedulers have loaded: real schedulers, in processes that are killed."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from apscheduler.events import EVENT_JOB_ERROR, EVENT_JOB_EXECUTED, JobExecutionEvent
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.combining import OrTrigger
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.interval import IntervalTrigger

import locknut
from locknut import aio
from locknut.contrib.apscheduler import (
    SKIPPED,
    OnceAsyncIOExecutor,
    OnceThreadPoolExecutor,
    _slot,
)
from tests.contracts.sources import ROOT
from tests.servers.redis import RedisServer

HANGS = 60.0


@pytest.fixture(
    params=[
        pytest.param("file", marks=pytest.mark.file),
        pytest.param("redis", marks=pytest.mark.redis),
    ]
)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "file":
        return f"file://{tmp_path}/locks"
    server: RedisServer = request.getfixturevalue("redis_server")
    return f"{server.url}?namespace={tmp_path.name}"


Host = subprocess.Popen[str]
Start = Callable[[str], Host]


@pytest.fixture
def start(url: str, tmp_path: Path) -> Iterator[Start]:
    """Starts another host; none outlives the test. All of them write into one file, `ran`."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "LOCKNUT_URL": url}
    with ExitStack() as stack:

        def host(code: str) -> Host:
            started = subprocess.Popen(
                [sys.executable, "-c", code],
                env=environment,
                cwd=tmp_path,
                text=True,
                stdout=subprocess.PIPE,
            )
            stack.callback(started.communicate, timeout=HANGS)
            stack.callback(started.kill)
            return started

        yield host


def until(true: Callable[[], Any], what: str) -> None:
    give_up = time.monotonic() + HANGS
    while not true():
        assert time.monotonic() < give_up, what
        time.sleep(0.02)


REPLICA = """
import os, time
from apscheduler.events import EVENT_JOB_EXECUTED
from apscheduler.schedulers.background import BackgroundScheduler
from locknut.contrib.apscheduler import OnceThreadPoolExecutor

def report():
    return "ran"

def note(event):
    with open("ran", "a") as file:
        file.write(f"{event.scheduled_run_time} {event.retval} {os.getpid()}\\n")

scheduler = BackgroundScheduler(executors={"default": OnceThreadPoolExecutor()})
scheduler.add_listener(note, EVENT_JOB_EXECUTED)
scheduler.add_job(report, TRIGGER, id="report", misfire_grace_time=60)
scheduler.start()
print("started", flush=True)
time.sleep(600)
"""


def runs(folder: Path) -> list[str]:
    """The scheduled times for which a job has run."""
    ran = folder / "ran"
    lines = ran.read_text().splitlines() if ran.exists() else []
    return [line.split(" ran ")[0] for line in lines if " ran " in line]


@pytest.mark.faults
@pytest.mark.slow
def test_several_hosts_run_each_scheduled_time_once_while_they_are_killed(
    start: Start, tmp_path: Path
) -> None:
    code = REPLICA.replace("TRIGGER", '"cron", second="*"')
    hosts = [start(code) for _ in range(3)]
    for host in hosts:
        assert host.stdout is not None
        assert host.stdout.readline() == "started\n"
    until(lambda: len(runs(tmp_path)) >= 3, "they run")
    hosts[0].kill()
    hosts[0].wait(HANGS)
    seen = len(runs(tmp_path))
    until(lambda: len(runs(tmp_path)) >= seen + 3, "the others go on")
    for host in hosts:
        host.kill()
    times = Counter(runs(tmp_path))
    assert set(times.values()) == {1}, times
    assert "<skipped" in (tmp_path / "ran").read_text()


def test_an_interval_that_each_host_counts_from_its_own_start_runs_once(tmp_path: Path) -> None:
    """The slots are multiples of the interval, wherever in it a scheduler began."""
    begin = datetime(2026, 11, 17, 12, 0, tzinfo=UTC)
    trigger = IntervalTrigger(minutes=15, start_date=begin)
    slots = {_slot(trigger, begin + timedelta(minutes=late))["at"] for late in (0, 3, 14.9)}
    assert slots == {begin}
    assert _slot(trigger, begin + timedelta(minutes=15))["at"] == begin + timedelta(minutes=15)
    assert _slot(CronTrigger(minute="*/5", timezone="UTC"), begin) == {"at": begin, "per": 300.0}


@pytest.fixture
def scheduler(url: str) -> Iterator[BackgroundScheduler]:
    with locknut.connect(url) as locks:
        made = BackgroundScheduler(executors={"default": OnceThreadPoolExecutor(locks=locks)})
        made.start()
        yield made
        made.shutdown()


def outcome(scheduler: Any, job: Callable[..., Any], **options: Any) -> JobExecutionEvent:
    """Run a job now, and return how it ended."""
    seen: list[JobExecutionEvent] = []
    ended = threading.Event()

    def note(event: JobExecutionEvent) -> None:
        seen.append(event)
        ended.set()

    scheduler.add_listener(note, EVENT_JOB_ERROR | EVENT_JOB_EXECUTED)
    scheduler.add_job(job, misfire_grace_time=60, **options)
    assert ended.wait(HANGS)
    scheduler.remove_listener(note)
    return seen[0]


def test_a_skipped_run_has_a_result_of_its_own(
    scheduler: BackgroundScheduler, caplog: pytest.LogCaptureFixture
) -> None:
    now = datetime.now(UTC)
    first = outcome(scheduler, lambda: "ran", id="report", run_date=now)
    again = outcome(scheduler, lambda: "ran", id="report", run_date=now)
    assert (first.retval, again.retval) == ("ran", SKIPPED)
    assert not again.retval
    assert "skipped 'job:report' on" in caplog.text


def test_two_runs_of_a_job_do_not_overlap(scheduler: BackgroundScheduler, url: str) -> None:
    with locknut.connect(url) as other, other.lock("job:long"):
        assert outcome(scheduler, lambda: "ran", id="long").retval is SKIPPED


def test_a_run_that_lost_its_lock_is_an_error(scheduler: BackgroundScheduler, url: str) -> None:
    def job() -> str:
        with locknut.connect(url) as other:
            assert other.force_release("job:broken", reason="a test")
        return "ran"

    ended = outcome(scheduler, job, id="broken")
    assert isinstance(ended.exception, locknut.LeaseLost)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"trigger": "cron", "second": "*"}, "an id that APScheduler made up"),
        ({"trigger": "cron", "second": "*", "jitter": 3, "id": "a"}, "jitter"),
        ({"trigger": OrTrigger([IntervalTrigger(seconds=1)]), "id": "a"}, "an interval in "),
    ],
)
def test_jobs_whose_times_nobody_can_compare_are_refused(
    scheduler: BackgroundScheduler,
    options: dict[str, Any],
    says: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    ran: list[int] = []
    scheduler.add_job(lambda: ran.append(1), **options)
    until(lambda: says in caplog.text, "it is refused")
    assert not ran


def test_a_coroutine_function_is_cancelled_when_its_lock_is_lost(url: str) -> None:
    async def main() -> None:
        begun, over = asyncio.Event(), asyncio.Event()
        ended: list[JobExecutionEvent] = []

        async def job() -> None:
            begun.set()
            try:
                await asyncio.sleep(HANGS)
            except asyncio.CancelledError:
                over.set()
                raise

        async with aio.connect(url) as locks, aio.connect(url) as other:
            executor = OnceAsyncIOExecutor(locks=locks)
            scheduler = AsyncIOScheduler(executors={"default": executor})
            scheduler.add_listener(ended.append, EVENT_JOB_ERROR)
            scheduler.start()
            now = datetime.now(UTC)
            scheduler.add_job(job, id="await", run_date=now, misfire_grace_time=60)
            await asyncio.wait_for(begun.wait(), HANGS)
            assert await other.force_release("job:await", reason="a test")
            await asyncio.wait_for(over.wait(), HANGS)
            while not ended:  # noqa: ASYNC110  # APScheduler has no event to wait for
                await asyncio.sleep(0.02)
            assert isinstance(ended[0].exception, locknut.LeaseLost)
            scheduler.shutdown()

    asyncio.run(main())


def test_a_plain_function_is_no_job_for_a_loop(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        scheduler = AsyncIOScheduler(executors={"default": OnceAsyncIOExecutor()})
        scheduler.start()
        scheduler.add_job(print, id="plain", misfire_grace_time=60)
        while "is a plain function" not in caplog.text:  # noqa: ASYNC110  # the same
            await asyncio.sleep(0.02)
        scheduler.shutdown()

    asyncio.run(main())
