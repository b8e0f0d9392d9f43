"""The recipes of docs/tasks.md, each with the real worker of its queue and a real Redis.

In the text of a recipe the test puts a gate before the work, and shorter pauses.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import locknut
from tests.contracts.documentation import Block, blocks_of
from tests.contracts.sources import ROOT
from tests.contrib.programs import HANGS, Started, running, until
from tests.servers.redis import RedisServer

pytestmark = [pytest.mark.faults, pytest.mark.slow]

PAGE = ROOT / "docs" / "tasks.md"
GATE = """
import os, time

def say(*words):
    with open("said", "a") as file:
        print(*words, file=file)

def gate(order):
    say("begun", order, os.getpid())
    while not os.path.exists(f"open-{order}"):
        time.sleep(0.02)
    say("ended", order)
"""
SHORTER = {
    "interval=5": "interval=1",
    "delay=5000": "delay=200",
    "defer=5": "defer=0.2",
    ".lock(f": ".lock(ttl=2, name=f",
}
WORK = ('return f"order', 'print(f"order')


def recipe(words: str) -> str:
    (found,) = [each for each in blocks_of(PAGE) if words in each.code and "Retry(" in each.code]
    return found.code


class Queue:
    """A folder with the module `shop`, made of a recipe, and what its workers have said."""

    worker: tuple[str, ...] = ()
    sender = ""

    def __init__(self, folder: Path, server: RedisServer, place: str):
        self.folder = folder
        self.url = server.url
        self.environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT / "src")]),
            "LOCKNUT_URL": place,
        }
        (folder / "gate.py").write_text(GATE)
        (folder / "shop.py").write_text("from gate import gate\n" + self.gated())

    def gated(self) -> str:
        code = recipe(self.words).replace("redis://localhost", self.url)
        for usual, shorter in SHORTER.items():
            code = code.replace(usual, shorter)
        (work,) = [each for each in WORK if each in code]
        assert code.count(work) == 1
        return code.replace(work, f"gate(order); {work}")

    words = ""

    def working(self) -> Started:
        words = [each.format(url=self.url) for each in self.worker]
        return running("-m", *words, folder=self.folder, environment=self.environment)

    def send(self, order: int) -> None:
        program = self.sender.format(url=self.url, order=order)
        command = [sys.executable, "-c", program]
        subprocess.run(command, env=self.environment, cwd=self.folder, check=True, timeout=HANGS)

    def said(self, *words: object) -> list[list[str]]:
        said = self.folder / "said"
        lines = said.read_text().splitlines() if said.exists() else []
        return [each.split() for each in lines if each.split()[: len(words)] == [*map(str, words)]]

    def wait_for(self, *words: object, times: int = 1) -> int:
        """Wait until it was said so often; return the process that said it last."""
        until(lambda: len(self.said(*words)) >= times, f"{words}: {self.log()}")
        return int(self.said(*words)[-1][-1])

    def let_through(self, order: int) -> None:
        (self.folder / f"open-{order}").touch()

    def log(self) -> str:
        return (self.folder / "log").read_text()[-4000:]


class Rq(Queue):
    """Each worker forks for each job; two of them, so that a busy job could be run."""

    words = "from rq import"
    worker = ("rq.cli", "worker-pool", "-n", "2", "--url", "{url}", "shop")
    sender = """
import redis, rq
rq.Queue("shop", connection=redis.Redis.from_url("{url}")).enqueue("shop.charge", {order})
"""


class Dramatiq(Queue):
    words = "import dramatiq"
    worker = ("dramatiq", "shop", "--processes", "2", "--threads", "2")
    sender = "import shop; shop.charge.send({order})"


class Arq(Queue):
    words = "from arq import"
    worker = ("arq", "shop.WorkerSettings")
    sender = """
import asyncio, arq
from arq.connections import RedisSettings

async def main():
    pool = await arq.create_pool(RedisSettings.from_dsn("{url}"))
    await pool.enqueue_job("charge", {order})

asyncio.run(main())
"""

    def gated(self) -> str:
        code = super().gated().replace("gate(order)", "await asyncio.to_thread(gate, order)")
        address = f"redis_settings = RedisSettings.from_dsn({self.url!r})"
        return f"import asyncio\nfrom arq.connections import RedisSettings\n{code}\n    {address}\n"


@pytest.fixture(params=[Rq, Dramatiq, Arq])
def kind(request: pytest.FixtureRequest) -> type[Queue]:
    made: type[Queue] = request.param
    return made


@pytest.fixture(
    params=[
        pytest.param("file", marks=[pytest.mark.file, pytest.mark.redis]),
        pytest.param("redis", marks=pytest.mark.redis),
    ]
)
def queue(
    request: pytest.FixtureRequest, tmp_path: Path, kind: type[Queue]
) -> Iterator[tuple[Queue, locknut.Locks]]:
    """Each has a server of its own: queues have fixed names there."""
    with RedisServer() as server:
        place = f"file://{tmp_path}/locks" if request.param == "file" else server.url
        with locknut.connect(place) as locks:
            yield kind(tmp_path, server, place), locks


def test_a_busy_job_comes_back_and_runs_when_the_lock_is_free(
    queue: tuple[Queue, locknut.Locks],
) -> None:
    jobs, locks = queue
    with jobs.working():
        jobs.send(1)
        jobs.wait_for("begun", 1)
        jobs.send(1)
        jobs.let_through(2)
        jobs.send(2)
        jobs.wait_for("ended", 2)
        assert len(jobs.said("begun", 1)) == 1
        jobs.let_through(1)
        jobs.wait_for("ended", 1, times=2)
        until(lambda: not locks.info("order:1").locked, "it is free")
    assert [line[0] for line in jobs.said() if line[1] == "1"] == ["begun", "ended"] * 2


def test_two_killed_workers_leave_no_lock(queue: tuple[Queue, locknut.Locks]) -> None:
    jobs, locks = queue
    for times in (1, 2):
        with jobs.working():
            jobs.send(3)
            os.kill(jobs.wait_for("begun", 3, times=times), signal.SIGKILL)
            freed = locks.lock("order:3").acquire(timeout=HANGS)
            assert freed is not None
            freed.release()
    jobs.let_through(3)
    with jobs.working():
        jobs.send(3)
        jobs.wait_for("ended", 3)


def test_a_recipe_is_short() -> None:
    long = [str(each) for each in blocks_of(PAGE) if _lines(each) > 15]
    assert not long


def _lines(block: Block) -> int:
    return len([line for line in block.code.splitlines() if line.strip()])
