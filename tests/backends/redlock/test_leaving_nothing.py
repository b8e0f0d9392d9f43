"""What a client remembers of its claims it forgets again, and what it told nodes runs out."""

from __future__ import annotations

import secrets
from typing import Any

import pytest

from locknut.core.values import Claim, Granted
from locknut.errors import AcquireTimeout, BackendUnavailable, LocknutError
from locknut.opening import Settings
from locknut.testing.conformance.colours import COLOURS
from locknut.urls import open_engine
from tests.backends.redlock.reaching import reach_all
from tests.servers.redlock import RedlockNodes

pytestmark = [pytest.mark.redis, pytest.mark.parametrize("colour", list(COLOURS))]


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
