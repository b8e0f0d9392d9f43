"""What a server says that will pass, or that another server need not say: it is waited for."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any, Self

import pytest
from hiredis import ReplyError

import locknut
from locknut import aio
from locknut.drivers.redis import wire
from locknut.errors import BackendError, BackendUnavailable
from tests.backends.redis.conftest import PATIENCE, eventually
from tests.backends.redis.test_sentinel import liar
from tests.servers.redis import RedisServer
from tests.servers.sentinel import SERVICE

pytestmark = [pytest.mark.redis, pytest.mark.faults]
COLOURS = pytest.mark.parametrize("colour", ["blocking", "asyncio"])
LONELY = "min-replicas-to-write"


@pytest.fixture(scope="module")
def own() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


class Asking:
    """Somebody acquires a lock, in either colour, beside the test."""

    def __init__(self, colour: str, url: str):
        self.refused: list[BackendError] = []
        self.got: list[Any] = []
        self.go_on = threading.Event()
        """Set it when the server says what is to be tested."""
        self._thread = threading.Thread(target=self._tasks if colour == "asyncio" else self._ask)
        self._url = url

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join(PATIENCE * 2)

    def _ask(self) -> None:
        with locknut.connect(self._url, namespace="t") as locks:
            with locks.lock("first", timeout=PATIENCE):
                pass
            self.got.append("first")  # it has been given back by now
            self.go_on.wait(PATIENCE)
            while len(self.got) < 2:
                try:
                    self.got.append(locks.lock("x").acquire(timeout=PATIENCE))
                except BackendError as error:
                    self.refused.append(error)

    def _tasks(self) -> None:
        asyncio.run(self._story())

    async def _story(self) -> None:
        async with aio.connect(self._url, namespace="t") as locks:
            async with locks.lock("first", timeout=PATIENCE):
                pass
            self.got.append("first")
            await asyncio.to_thread(self.go_on.wait, PATIENCE)
            while len(self.got) < 2:
                try:
                    self.got.append(await locks.lock("x").acquire(timeout=PATIENCE))
                except BackendError as error:
                    self.refused.append(error)


@pytest.mark.parametrize(
    "said",
    [
        "NOREPLICAS Not enough good replicas to write.",
        "MISCONF Redis is configured to save RDB snapshots, but it is unable to persist to disk.",
        "LOADING Redis is loading the dataset in memory",
        "ERR max number of clients reached",
        "ERR Error running script: NOREPLICAS Not enough good replicas to write.",
    ],
)
def test_they_are_no_refusals(said: str) -> None:
    assert isinstance(wire.failed(ReplyError(said)), BackendUnavailable)


@pytest.mark.parametrize("said", ["READONLY", "LOADING", "MASTERDOWN", "UNBLOCKED", "NOREPLICAS"])
def test_who_says_this_may_not_be_the_master_any_more(said: str) -> None:
    assert wire.elsewhere(ReplyError(f"{said} and why"))
    assert not wire.elsewhere(ReplyError("MISCONF Redis is configured to save"))


@COLOURS
def test_replicas_that_are_missing_are_waited_for(own: RedisServer, colour: str) -> None:
    with locknut.connect(own.url, namespace="t") as locks:
        lease = locks.lock(f"held by {colour}", ttl=3).acquire(timeout=PATIENCE)
        assert lease is not None
        own.ask("CONFIG", "SET", LONELY, 1)
        try:
            with pytest.raises(BackendUnavailable, match="NOREPLICAS"):
                locks.lock("y").acquire(timeout=0.5)
        finally:
            own.ask("CONFIG", "SET", LONELY, 0)
        lease.renew()
        lease.release()


@COLOURS
def test_the_sentinels_are_asked_again(own: RedisServer, colour: str) -> None:
    """A master that is cut off says NOREPLICAS; they have named another by then."""
    with (
        RedisServer() as new,
        liar(own) as told,
        Asking(colour, f"redis+sentinel://{told.place}/{SERVICE}") as asking,
    ):
        eventually(lambda: asking.got, "it did not begin")
        own.ask("CONFIG", "SET", LONELY, 1)
        told.told = new
        asking.go_on.set()
        try:
            eventually(lambda: len(asking.got) == 2, "the new master was not found")
        finally:
            own.ask("CONFIG", "SET", LONELY, 0)
        assert not asking.refused


@COLOURS
def test_a_crowded_server_is_waited_for(own: RedisServer, colour: str) -> None:
    with own.connect() as admin:
        admin.ask("CONFIG", "SET", "maxclients", 1)
        try:
            with locknut.connect(own.url) as locks, pytest.raises(BackendUnavailable):
                locks.lock("x").acquire(timeout=0.3)

            async def story() -> None:
                async with aio.connect(own.url) as locks:
                    with pytest.raises(BackendUnavailable):
                        await locks.lock("x").acquire(timeout=0.3)

            if colour == "asyncio":
                asyncio.run(story())
        finally:
            admin.ask("CONFIG", "SET", "maxclients", 100)  # an ordinary user has few descriptors


@COLOURS
def test_a_name_that_leads_to_a_replica_for_a_while_is_waited_for(
    own: RedisServer, colour: str
) -> None:
    """As at a managed service, whose name moves on; before it ever was a master it is a mistake."""
    with RedisServer() as other, Asking(colour, own.url) as asking:
        eventually(lambda: asking.got, "it did not begin")
        own.ask("REPLICAOF", other.host, other.port)
        own.client_kill()
        asking.go_on.set()
        try:
            with (
                locknut.connect(own.url) as locks,
                pytest.raises(BackendError, match="read-only replica"),
            ):
                locks.lock("y").acquire()
        finally:
            own.ask("REPLICAOF", "NO", "ONE")
        eventually(lambda: len(asking.got) == 2, "it was not waited for")
        assert all(isinstance(each, BackendUnavailable) for each in asking.refused)
