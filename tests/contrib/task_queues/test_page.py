"""What docs/tasks.md has to copy for Celery and APScheduler, run as it stands."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from celery import Celery

import locknut
from locknut.contrib.celery import is_skipped
from tests.contracts.documentation import blocks_of
from tests.contracts.sources import ROOT
from tests.contrib.programs import HANGS, Started, running, until
from tests.contrib.task_queues.test_recipes import GATE
from tests.servers.redis import RedisServer

pytestmark = [pytest.mark.redis, pytest.mark.slow]

PAGE = ROOT / "docs" / "tasks.md"


def block(words: str) -> str:
    (found,) = [each for each in blocks_of(PAGE) if words in each.code]
    return found.code


class Place:
    """An empty folder, a broker, and programs that end with the test."""

    def __init__(self, folder: Path, server: RedisServer, locks_url: str):
        self.folder = folder
        self.url = server.url
        self.environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT / "src")]),
            "LOCKNUT_URL": locks_url,
            "CELERY_BROKER_URL": server.url,
            "CELERY_RESULT_BACKEND": server.url,
        }

    def program(self, *words: str) -> Started:
        return running(*words, folder=self.folder, environment=self.environment)

    def begun(self) -> list[int]:
        """The processes of those that have come to the gate."""
        said = self.folder / "said"
        lines = said.read_text().splitlines() if said.exists() else []
        return [int(line.split()[-1]) for line in lines if line.startswith("begun")]

    def log(self) -> str:
        return (self.folder / "log").read_text()[-4000:]


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """Locks are in Redis, as the messages are, unless the test wants files."""
    with RedisServer() as server:
        files = getattr(request, "param", "redis") == "file"
        yield Place(tmp_path, server, f"file://{tmp_path}/locks" if files else server.url)


on_both = pytest.mark.parametrize(
    "place", [pytest.param("file", marks=pytest.mark.file), "redis"], indirect=True
)


@pytest.fixture
def app(place: Place) -> Iterator[Any]:
    """Sends tasks, and gets their results."""
    made: Any = Celery("test", broker=place.url, backend=place.url, set_as_current=False)
    yield made
    made.backend.result_consumer.stop()
    made.backend.client.connection_pool.disconnect()
    made.close()


WORKER = ("-m", "celery", "-A", "shop", "worker", "--concurrency=2", "-l", "warning", "-n")


def test_tasks_of_celery(place: Place, app: Any) -> None:
    (place.folder / "shop.py").write_text(block("@locked_task("))
    with place.program(*WORKER, "one@%h"), locknut.connect(place.url) as locks:
        with locks.lock("report:monday"), locks.lock("order:42"):
            later = app.send_task("shop.charge", [42])
            assert is_skipped(app.send_task("shop.report", ["monday"]).get(HANGS))
            assert app.send_task("shop.report", ["tuesday"]).get(HANGS) == "report of tuesday"
            until(lambda: later.state == "RETRY", place.log())
        assert later.get(HANGS) == "order 42 is paid"


@pytest.mark.faults
@on_both
def test_two_killed_workers_of_celery_leave_no_lock(place: Place, app: Any) -> None:
    """A message that a killed worker had fetched is lost for an hour, and one that Redis hands to
    its connection before it is seen to be closed is lost for good: new ones are sent.
    """
    code = block("@locked_task(")
    changes = {
        '"order:{order}")': '"order:{order}", retry_every=0.2, ttl=3)',
        'return f"order': 'gate(order); return f"order',
    }
    for usual, changed in changes.items():
        assert code.count(usual) == 1
        code = code.replace(usual, changed)
    (place.folder / "gate.py").write_text(GATE)
    (place.folder / "shop.py").write_text(f"from gate import gate\n{code}")
    with place.program(*WORKER, "one@%h"), place.program(*WORKER, "two@%h"):
        app.send_task("shop.charge", [42])
        until(lambda: len(place.begun()) == 1, place.log())
        busy = app.send_task("shop.charge", [42])
        until(lambda: busy.state == "RETRY", place.log())
        os.killpg(os.getpgid(place.begun()[-1]), signal.SIGKILL)
        _charge_until(app, lambda _: len(place.begun()) == 2)
        os.killpg(os.getpgid(place.begun()[-1]), signal.SIGKILL)
    (place.folder / "open-42").touch()
    with place.program(*WORKER, "three@%h"):
        _charge_until(app, lambda sent: "order 42 is paid" in [each.result for each in sent])


def _charge_until(app: Any, true: Callable[[list[Any]], bool]) -> None:
    """Send a message every few seconds until this holds, for what has been sent."""
    sent: list[Any] = []
    began = time.monotonic()
    while not true(sent):
        waited = time.monotonic() - began
        assert waited < HANGS, "no message has got through"
        if waited >= 3 * len(sent):
            sent.append(app.send_task("shop.charge", [42]))
        time.sleep(0.02)


def test_a_beat_of_ones_own(place: Place) -> None:
    more = "\nfrom celery import Celery\napp = Celery('shop')\n"
    (place.folder / "shop.py").write_text(block("LeaderMixin") + more)
    beat = ("-m", "celery", "-A", "shop", "beat", "-S", "shop:ShopScheduler", "-l", "info")
    with place.program(*beat) as first, locknut.connect(place.url) as locks:
        until(lambda: locks.info("shop-beat").locked, place.log())
        fence = locks.info("shop-beat").holders[0].fence
        with place.program(*beat):
            until(lambda: "beat stands by" in place.log(), place.log())
            os.kill(first.pid, signal.SIGKILL)
            until(lambda: _fence(locks) not in (None, fence), place.log())


def _fence(locks: locknut.Locks) -> int | None:
    holders = locks.info("shop-beat").holders
    return holders[0].fence if holders else None


def test_the_page_names_the_scheduler_that_is_tested() -> None:
    assert "beat -S locknut.contrib.celery_beat:LeaderScheduler" in PAGE.read_text()


JOB = """
import time
until = time.monotonic() + 600
while time.monotonic() < until:
    time.sleep(1)
"""


@pytest.mark.faults
@on_both
def test_jobs_of_apscheduler_go_on_when_two_are_killed(place: Place) -> None:
    code = block("OnceThreadPoolExecutor(")
    often = code.replace("hour=3", 'second="*", misfire_grace_time=60')
    work = often.replace('return "written"', 'print("written", flush=True); return "written"')
    assert work.count("print(") == 1
    (place.folder / "replica.py").write_text(work + JOB)
    with (
        place.program("replica.py") as first,
        place.program("replica.py") as second,
        place.program("replica.py"),
    ):
        _writes_more(place)
        for killed in (first, second):
            os.kill(killed.pid, signal.SIGKILL)
            killed.wait(HANGS)
            _writes_more(place)


def _writes_more(place: Place) -> None:
    log = place.folder / "log"
    seen = log.read_text().count("written")
    until(lambda: log.read_text().count("written") >= seen + 2, "the others go on")
