"""What a client remembers of its claims it forgets again, and what it told nodes runs out."""

from __future__ import annotations

import secrets
from typing import Any

import pytest

from locknut.core.values import Busy, Claim, Granted
from locknut.errors import AcquireTimeout, BackendUnavailable, LocknutError
from locknut.opening import Settings
from locknut.testing.conformance.colours import COLOURS
from locknut.testing.proxy import FaultProxy
from locknut.urls import open_engine
from tests.backends.redlock.reaching import reach_all
from tests.servers.redlock import RedlockNodes

LINE = "locknut:{x}:redlock:line"
pytestmark = [pytest.mark.redis, pytest.mark.parametrize("colour", list(COLOURS))]


@pytest.mark.slow
def test_no_ballot_is_kept_of_what_is_over(three: RedlockNodes, colour: str) -> None:
    """Released, lost, detached, timed out, or in vain because nobody was there."""
    paint = COLOURS[colour]()
    engine: Any = open_engine(three.url)[0]

    async def body() -> None:
        locks = paint.locks(engine, Settings("locknut"))
        other = paint.locks(open_engine(three.url)[0], Settings("locknut"))
        async with locks.lock("released"):
            pass
        lost = await locks.lock("lost", ttl=2, auto_renew=False).acquire()
        detached = await locks.lock("detached").acquire()
        await detached.detach()
        async with other.lock("taken"):
            with pytest.raises(AcquireTimeout):
                async with locks.lock("taken", timeout=0.05):
                    pass
        for node in three.nodes[:2]:
            node.kill()
        with pytest.raises(BackendUnavailable):
            await locks.lock("in vain").acquire(timeout=0)
        assert await lost.lost.wait(20)
        with pytest.raises(LocknutError):
            await lost.release()
        for node in three.nodes[:2]:
            node.start()
        async with locks.lock("again", timeout=30):
            pass
        for _ in range(600):
            if not engine._set.ballots:
                break
            await paint.pause(0.05)
        assert not engine._set.ballots
        await other.close()
        await locks.close()

    paint.run(body())


def test_no_ballot_is_kept_of_an_attach_that_is_answered_after_its_release(
    three: RedlockNodes, colour: str
) -> None:
    """Its caller gave up meanwhile; the tombstones of the release end what it took over."""
    paint = COLOURS[colour]()
    engine: Any = open_engine(three.url)[0]
    detached, heir = (Claim("t:x", secrets.token_hex(16), ttl=30.0) for _ in range(2))

    async def body() -> None:
        locks = paint.locks(engine, Settings("locknut"))
        async with locks.lock("warm", timeout=30):
            pass
        backend: Any = paint.backend(engine)
        assert isinstance(await backend.attempt(detached, 0.0), Granted)
        assert await backend.detach(detached, 30.0)
        answered = backend._round

        async def late(*words: Any, **facts: Any) -> Any:
            taken = await answered(*words, **facts)
            await backend.release(heir, outcome_unknown=True)
            return taken

        backend._round = late
        await backend.attach(detached, heir)
        assert not engine._set.ballots
        assert not engine._set.attaching
        backend._round = answered
        assert not (await locks.info("x")).holders
        await backend.close()
        await locks.close()

    paint.run(body())


def test_a_vote_leaves_no_tombstone_where_its_release_goes_the_same_way(
    three: RedlockNodes, colour: str
) -> None:
    """Answered or not: a majority has decided, and who has not answered has the release behind the
    vote.
    """
    paint = COLOURS[colour]()

    async def body() -> None:
        locks = paint.locks(open_engine(three.url)[0], Settings("locknut"))
        await reach_all(paint, locks, three, "warm")
        for _ in range(20):
            async with locks.lock("x"):
                pass
        three.nodes[0].stop()
        async with locks.lock("x"):
            pass
        three.nodes[0].cont()
        await reach_all(paint, locks, three, "behind all of it")
        for node in three.nodes:
            assert node.ask("EXISTS", "locknut:{x}:redlock:alive", "locknut:{x}:redlock") == 0
        await locks.close()

    paint.run(body())


def test_whoever_waits_when_its_locks_are_closed_leaves_every_line(
    three: RedlockNodes, colour: str
) -> None:
    """It connects anew for that, and one node is slower than a majority. That node went on showing
    the waiter for three seconds, and the new connections stayed open.
    """
    paint = COLOURS[colour]()
    waits = Claim("locknut:x", secrets.token_hex(16), ttl=10.0)

    async def body(slow: FaultProxy) -> None:
        others = three.hosts.rpartition(",")[0]
        url = f"redlock://{others},127.0.0.1:{slow.port}?durable=true&node_timeout=10"
        backend: Any = paint.backend(open_engine(url)[0])
        holds = Claim("locknut:x", secrets.token_hex(16), ttl=60.0)
        assert isinstance(await backend.attempt(holds, 0.0), Granted)
        with backend.watch(waits, paint.runtime().signal):
            for _ in range(600):
                assert isinstance(await backend.attempt(waits, 0.0), Busy)
                if all(n.ask("ZSCORE", LINE, waits.id) for n in three.nodes):
                    break
                await paint.pause(0.05)
            else:
                pytest.fail("it does not stand in every line")
        await backend.close()
        slow.replies.delay(0.05)
        await backend.release(waits)
        assert not any(n.ask("ZSCORE", LINE, waits.id) for n in three.nodes)
        await backend.release(holds)
        for _ in range(600):
            if not slow.connections:
                break
            await paint.pause(0.05)
        assert not slow.connections

    with FaultProxy((three.nodes[2].host, three.nodes[2].port)) as slow:
        paint.run(body(slow))
