"""Asking whether the engine works: nobody notices, and nothing is left of it."""

from __future__ import annotations

from typing import Any

import pytest

from locknut.core.pinging import NAME
from locknut.errors import BackendUnavailable, ConfigurationError
from locknut.testing.conformance.scene import Scene
from locknut.testing.conformance.suite import Part

_CROWD = 4


class Pings(Part):
    """`ping`."""

    async def test_it_tells_the_engine_and_the_time(self, scene: Scene) -> None:
        locks = scene.connect()
        for _ in range(2):
            answer = await locks.ping()
            assert answer.backend == scene.backend
            assert answer.place == locks.place
            assert 0 < answer.seconds < 5

    async def test_nobody_notices(self, scene: Scene) -> None:
        locks, other = scene.connect(), scene.connect()
        news = scene.news(locks)
        async with other.lock("x") as lease:
            await locks.ping()
            assert lease.held
            assert [each.name for each in await locks.list()] == ["x"]
        assert news.kinds() == []
        assert await other.list() == []

    async def test_those_who_ping_at_the_same_time_all_succeed(self, scene: Scene) -> None:
        async def ping() -> Any:
            return await locks.ping(timeout=60)

        crowd = []
        for _ in range(_CROWD):
            locks = scene.connect()
            crowd.append(scene.spawn(ping))
        for each in crowd:
            assert (await each.result()).seconds > 0

    async def test_it_fails_while_somebody_holds_the_reserved_name(self, scene: Scene) -> None:
        locks = scene.connect()
        async with scene.stranger(NAME):
            # On a busy machine even the first question may have no answer in so short a time: what
            # is told then is not about the name.
            with pytest.raises(BackendUnavailable):
                await locks.ping(timeout=0.3)
        await scene.eventually(lambda: _answers(locks))

    async def test_a_closed_one_does_not_answer(self, scene: Scene) -> None:
        locks = scene.connect()
        await locks.close()
        with pytest.raises(ConfigurationError, match="closed"):
            await locks.ping()

    async def test_its_timeout_is_checked(self, scene: Scene) -> None:
        locks = scene.connect()
        for wrong in (-1, "soon", None):
            with pytest.raises(ConfigurationError, match="timeout"):
                await locks.ping(timeout=wrong)


async def _answers(locks: Any) -> bool:
    return bool((await locks.ping(timeout=60)).seconds)
