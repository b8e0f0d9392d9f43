"""A shop with a real broker and real workers; locks are files or in Redis."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from celery import Celery

import locknut
from tests.contracts.sources import ROOT
from tests.contrib.programs import HANGS, Started, running, until
from tests.servers.redis import RedisServer

QUIET = ("--without-gossip", "--without-mingle", "--without-heartbeat", "-l", "warning")


class Shop:
    """One folder, one prefix at the broker, and the processes of `celery` that use them."""

    def __init__(self, folder: Path, broker: str, locks_url: str):
        self.folder = folder
        self.folder.mkdir()
        self.prefix = f"{folder.parent.name}-{folder.name}-"
        self.environment = {
            **os.environ,
            "SHOP": str(folder),
            "BROKER": broker,
            "PREFIX": self.prefix,
            "LOCKNUT_URL": locks_url,
            "PYTHONPATH": os.pathsep.join([*filter(None, sys.path), str(ROOT)]),
        }
        self.locks = locknut.connect(locks_url)
        self.app: Any = Celery("shop", broker=broker, backend=broker, set_as_current=False)
        self.app.conf.update(
            broker_transport_options={"global_keyprefix": self.prefix},
            result_backend_transport_options={"global_keyprefix": self.prefix},
        )

    def celery(self, *words: str, **more: str) -> Started:
        """A command of Celery."""
        command = ("-m", "celery", "-A", "tests.contrib.celery.shop", *words)
        return running(*command, folder=self.folder, environment={**self.environment, **more})

    def worker(self, *words: str, **more: str) -> Any:
        return self.celery("worker", *QUIET, *words, **more)

    def send(self, task: str, *args: object, **kwargs: object) -> Any:
        return self.app.send_task(task, args, kwargs)

    def get(self, sent: Any) -> Any:
        return sent.get(timeout=HANGS, interval=0.02)

    def said(self, *words: object) -> list[list[str]]:
        """The lines of the tasks that begin with these words."""
        try:
            lines = (self.folder / "said").read_text().splitlines()
        except FileNotFoundError:
            return []
        wanted = [str(word) for word in words]
        return [each.split() for each in lines if each.split()[: len(wanted)] == wanted]

    def begun(self, name: str, times: int = 1) -> int:
        """Wait until a task has begun for the so-manieth time; return its process."""
        until(lambda: len(self.said("begun", name)) >= times, f"{name} begins: {self.log()}")
        return int(self.said("begun", name)[times - 1][2])

    def let_through(self, name: str) -> None:
        (self.folder / f"open-{name}").touch()

    def close(self) -> None:
        """Celery leaves the connections for its results to the collector of garbage."""
        backend = self.app.backend
        backend.result_consumer.stop()
        backend.client.connection_pool.disconnect()
        self.app.close()

    def log(self) -> str:
        return (self.folder / "log").read_text()[-4000:]


def make_shop(engine: str, folder: Path, server: RedisServer) -> Shop:
    place = f"file://{folder}/locks"
    if engine == "redis":
        place = f"{server.url}?namespace={folder.name}"
    return Shop(folder / "shop", server.url, place)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param("file", marks=[pytest.mark.file, pytest.mark.redis]),
        pytest.param("redis", marks=pytest.mark.redis),
    ],
)
def shop(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    redis_server: RedisServer,
) -> Iterator[Shop]:
    made = make_shop(request.param, tmp_path_factory.mktemp(request.param), redis_server)
    with made.locks:
        yield made
        made.close()
