"""Which keys a lock has, and what is left of them when nobody holds or waits."""

from __future__ import annotations

import pytest

from locknut.core.values import Busy, Granted, Mode
from locknut.testing.conformance.scene import Scene
from locknut.testing.conformance.suite import Part
from tests.servers.redis import RedisServer

pytestmark = pytest.mark.redis
PARTS = ("", ":alive", ":fence", ":info", ":line")


class TestKeys(Part):
    @pytest.fixture
    def engine_url(self, redis_server: RedisServer) -> str:
        return redis_server.url

    @pytest.mark.parametrize("mode", [Mode.EXCLUSIVE, Mode.PERMIT])
    async def test_five_while_somebody_waits_and_the_number_afterwards(
        self, scene: Scene, redis_server: RedisServer, mode: Mode
    ) -> None:
        port = scene.port()
        holder, first, second = (scene.claim("invoice:42", mode=mode, permits=1) for _ in range(3))
        assert isinstance(await port.attempt(holder, 0.0), Granted)
        for each in (first, second):
            assert isinstance(await port.attempt(each, 0.0), Busy)
        base = f"{scene.namespace}:{{invoice:42}}{':permits' if mode is Mode.PERMIT else ''}"
        assert keys(redis_server, scene) == [f"{base}{part}" for part in PARTS]
        assert await port.release(holder)
        assert isinstance(await port.attempt(first, 0.0), Granted)
        for each in (second, first):
            await port.release(each)

        async def gone() -> bool:
            return keys(redis_server, scene) == [f"{base}:fence"]

        await scene.eventually(gone, "something was left behind")

    async def test_only_the_next_one_is_told(self, scene: Scene, redis_server: RedisServer) -> None:
        """What it is told lies in an inbox of its own, where a thread waits."""
        if scene.colour.name != "blocking":
            return  # a message that nobody reads leaves nothing to look at
        port, holder = scene.port(), scene.claim("x")
        waiters = [scene.claim("x") for _ in range(3)]
        await port.attempt(holder, 0.0)
        for each in waiters:
            await port.attempt(each, 0.0)
        await port.release(holder)
        inboxes = [key for key in keys(redis_server, scene) if ":inbox:" in key]
        assert inboxes == [f"{scene.namespace}:{{x}}:inbox:{waiters[0].id[:16]}0"]
        for each in reversed(waiters):
            await port.release(each)


def keys(server: RedisServer, scene: Scene) -> list[str]:
    found = server.ask("KEYS", f"{scene.namespace}:*")
    assert isinstance(found, list)
    return sorted(key.decode() for key in found if isinstance(key, bytes))
