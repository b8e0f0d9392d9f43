"""Links to real servers in both colours: a story that is told to one of them runs in its way."""

from __future__ import annotations

import asyncio
import queue
import secrets
from collections.abc import Coroutine, Iterator
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from locknut.drivers.etcd.aio import LoopLink
from locknut.drivers.etcd.members import Members
from locknut.drivers.etcd.requests import Event, Link
from locknut.drivers.etcd.settings import read
from locknut.drivers.etcd.sync import BlockingLink
from locknut.runtimes.threads import run
from locknut.urls import parse
from tests.servers.etcd import EtcdCluster, EtcdServer

T = TypeVar("T")
PATIENCE = 30.0


class Colour:
    """How one colour opens links and runs commands; at its end all of them are closed."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._runner = asyncio.Runner() if name == "asyncio" else None
        self._links: list[Link] = []

    @property
    def blocking(self) -> bool:
        return self._runner is None

    def open(self, url: str, **changes: Any) -> Link:
        """A link of its own, with these settings changed."""
        settings = replace(read(parse(url)), **changes)
        return self.beside(settings, Members(settings))

    def beside(self, settings: Any, members: Members) -> Link:
        """One that shares what is known of the members."""
        link: Link = (BlockingLink if self.blocking else LoopLink)(settings, members)
        self._links.append(link)
        return link

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return run(work) if self._runner is None else self._runner.run(work)

    def close(self) -> None:
        for link in self._links:
            self.run(link.close())
        if self._runner is not None:
            self._runner.close()


@pytest.fixture(params=["blocking", "asyncio"])
def colour(request: pytest.FixtureRequest) -> Iterator[Colour]:
    made = Colour(request.param)
    yield made
    made.close()


@pytest.fixture
def link(colour: Colour, etcd_server: EtcdServer) -> Link:
    return colour.open(etcd_server.url)


@pytest.fixture
def key() -> bytes:
    """A name that no other test has."""
    return secrets.token_hex(8).encode()


@pytest.fixture
def own_server() -> Iterator[EtcdServer]:
    """One that the test may kill, stop and restart."""
    with EtcdServer() as server:
        yield server


@pytest.fixture
def cluster(etcd_cluster: EtcdCluster) -> Iterator[EtcdCluster]:
    """Whole again, whatever the test before has done."""
    etcd_cluster.heal()
    etcd_cluster.wait_until_whole()
    _ = etcd_cluster.leader
    yield etcd_cluster
    etcd_cluster.heal()
    etcd_cluster.wait_until_whole()


class Heard:
    """What a watch tells, to be waited for."""

    def __init__(self) -> None:
        self._events: queue.Queue[Event] = queue.Queue()

    def __call__(self, event: Event) -> None:
        self._events.put(event)

    def next(self) -> Event:
        return self._events.get(timeout=PATIENCE)

    def nothing(self) -> bool:
        return self._events.empty()
