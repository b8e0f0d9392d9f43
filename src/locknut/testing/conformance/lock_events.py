"""Events: each is emitted once, with the facts, and a listener that fails harms nobody."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from locknut.core.values import Event, Mode
from locknut.errors import LeaseLost
from locknut.testing.conformance.scene import Scene
from locknut.testing.conformance.suite import Part


class LockEvents(Part):
    """`on_event`, and the logger `locknut`."""

    async def test_a_quiet_life(self, scene: Scene) -> None:
        locks = scene.connect()
        news = scene.news(locks)
        async with locks.lock("x") as lease, locks.lock("x"):
            pass
        granted, released = news.events
        assert (granted.kind, released.kind) == ("granted", "released")
        assert granted.name == released.name == "x"
        assert granted.backend == scene.backend
        assert granted.fence == released.fence == lease.fence
        assert granted.mode is Mode.EXCLUSIVE
        assert granted.waited is not None
        assert granted.waited >= 0
        assert released.held is not None
        assert released.held >= 0

    async def test_a_wait_is_told_before_the_grant(self, scene: Scene) -> None:
        holder, locks = scene.connect(), scene.connect()
        news = scene.news(locks)

        async def wait() -> None:
            async with locks.lock("x"):
                pass

        async with holder.lock("x"):
            waiter = scene.spawn(wait)
            await news.heard("waiting")
        await waiter.result()
        assert news.kinds() == ["waiting", "granted", "released"]

    async def test_giving_up_is_told(self, scene: Scene) -> None:
        locks = scene.connect()
        news = scene.news(locks)
        async with scene.stranger("x"):
            asked = scene.now()
            await locks.lock("x").acquire(timeout=0.5)
            took = scene.now() - asked
        event = await news.heard("timed_out")
        assert event.waited is not None
        assert 0 < event.waited <= took
        assert news.kinds() == ["waiting", "timed_out"]

    async def test_trying_once_is_no_wait(self, scene: Scene) -> None:
        locks = scene.connect()
        news = scene.news(locks)
        async with scene.stranger("x"):
            await locks.lock("x").acquire(blocking=False)
        assert "waiting" not in news.kinds()

    async def test_a_loss_is_told_once(self, scene: Scene) -> None:
        locks = scene.connect()
        news = scene.news(locks)
        lease = await locks.lock("x", ttl=scene.ttl, auto_renew=False).acquire()
        event = await news.heard("lost")
        assert event.fence == lease.fence
        assert event.reason
        with pytest.raises(LeaseLost):
            await lease.release()
        assert news.kinds() == ["granted", "lost"]

    async def test_a_break_is_an_event_of_the_client_that_broke(self, scene: Scene) -> None:
        locks, other = scene.connect(), scene.connect()
        holder_news, news = scene.news(locks), scene.news(other)
        lease = await locks.lock("x", ttl=scene.safe_ttl).acquire()
        await other.force_release("x", fence=lease.fence)
        assert (await news.heard("broken")).fence == lease.fence
        assert (await holder_news.heard("lost")).fence == lease.fence

    async def test_a_listener_that_raises_harms_nobody(
        self, scene: Scene, caplog: pytest.LogCaptureFixture
    ) -> None:
        locks = scene.connect()

        def explode(event: Event) -> None:
            raise ZeroDivisionError(event.kind)

        locks.on_event(explode)
        news = scene.news(locks)
        with caplog.at_level(logging.CRITICAL, logger="locknut"):
            async with locks.lock("x"):
                pass
        assert news.kinds() == ["granted", "released"]

    async def test_listening_can_be_stopped(self, scene: Scene) -> None:
        locks = scene.connect()
        news = scene.news(locks)
        news.stop()
        news.stop()
        async with locks.lock("x"):
            pass
        assert not news.events

    async def test_the_logger_has_the_same_facts(
        self, scene: Scene, caplog: pytest.LogCaptureFixture
    ) -> None:
        locks = scene.connect()
        with caplog.at_level(logging.DEBUG, logger="locknut"):
            async with locks.lock("x") as lease:
                pass
            async with scene.stranger("x"):
                await locks.lock("x").acquire(timeout=0)
        facts: list[Any] = [
            record.locknut  # type: ignore[attr-defined]  # put there by `extra`
            for record in caplog.records
            if record.name == "locknut" and record.locknut["name"] == "x"  # type: ignore[attr-defined]
        ]
        assert [each["kind"] for each in facts] == ["granted", "released", "timed_out"]
        assert facts[0]["fence"] == lease.fence
        assert lease._hold.claim.id not in caplog.text
