"""Answers that never come, callers that leave, and a server that comes back without its data."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from locknut import aio
from locknut.core.values import Renewal
from locknut.errors import LeaseLost
from locknut.opening import Settings
from locknut.testing import FaultProxy
from locknut.testing.conformance.colours import Colour
from locknut.urls import open_engine
from tests.backends.sql.session.conftest import TABLE, backend, by_session, claim, granted, until
from tests.servers.databases import Database

pytestmark = pytest.mark.faults


def held(database: Database) -> bool:
    return database.ask(f"SELECT count(*) FROM {TABLE} WHERE holders <> ''") != [(0,)]


@pytest.mark.parametrize("lost", ["acquire", "release"])
def test_an_answer_that_is_lost_is_asked_for_again(
    database: Database, paint: Colour, lost: str
) -> None:
    """The session is in doubt, so it ends. What was done is found again; the next one is let in."""

    async def story() -> None:
        with FaultProxy((database.server.host, database.server.port)) as proxy:
            url = f"{database.url_through(proxy.port)}?mode=session&timeout=1s"
            locks = paint.locks(open_engine(url)[0], Settings("t"))
            for _ in range(3):  # from then on each is one round trip, by a statement that is kept
                async with locks.lock("x"):
                    pass
            if lost == "acquire":
                proxy.replies.swallow()
                asked = paint.spawn(lambda: locks.lock("x", ttl=60).acquire(timeout=60))
                await until(paint, lambda: held(database), "it did not arrive")
                proxy.heal()
                proxy.cut()
                lease = await asked.result(60)
                info = await locks.info("x")
                assert [each.fence for each in info.holders] == [lease.fence]
                await lease.release()
            else:
                lease = await locks.lock("x", ttl=60).acquire(timeout=60)
                proxy.replies.swallow()
                released = paint.spawn(lease.release)
                await until(paint, lambda: not held(database), "it did not arrive")
                proxy.heal()
                proxy.cut()
                await released.result(60)
            await locks.close()
        other = backend(paint, database)
        await granted(paint, other, last := claim())
        await other.release(last)
        await other.close()
        assert not held(database)

    paint.run(story())


def test_a_cancelled_task_leaves_nothing(database: Database) -> None:
    """Neither a hold nor a session that waits."""

    async def story() -> None:
        async with aio.connect(by_session(database), namespace="t") as locks:
            async with locks.lock("x"):
                pass
            for pause in (0.0, 0.0005, 0.002, 0.005, 0.01) * 4:
                task = asyncio.create_task(locks.lock("x").acquire())
                await asyncio.sleep(pause)
                task.cancel()
                with suppress(asyncio.CancelledError):
                    lease = await task  # it was quicker
                    assert lease is not None
                    await lease.release()
            async with locks.lock("x", timeout=60):
                pass
        assert not held(database)

    asyncio.run(story())


def test_a_table_that_comes_back_empty_is_a_loss(database: Database, paint: Colour) -> None:
    """A restored backup: who held has lost, and numbers go on growing."""

    async def story() -> None:
        client, first, second = backend(paint, database), claim(), claim()
        raw = (await granted(paint, client, first)).raw
        database.ask(f"DELETE FROM {TABLE}")
        assert await client.renew([first]) == [Renewal.LOST]
        assert not await client.release(first)
        assert (await granted(paint, client, second)).raw > raw
        await client.release(second)
        await client.close()

    paint.run(story())


def test_a_release_after_that_says_so(database: Database, paint: Colour) -> None:
    async def story() -> None:
        locks = paint.locks(open_engine(by_session(database))[0], Settings("t"))
        lease = await locks.lock("x", ttl=60).acquire()
        database.ask(f"DELETE FROM {TABLE}")
        with pytest.raises(LeaseLost):
            await lease.release()
        await locks.close()

    paint.run(story())
