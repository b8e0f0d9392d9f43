"""Breaking a hold by force: a loop is told at once, a thread by its next renewal; and both why."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

import locknut
from locknut import aio
from locknut.runtimes import deadlines
from tests.backends.redis.conftest import PATIENCE
from tests.servers.redis import RedisServer

pytestmark = pytest.mark.redis
LONG = 30_000.0
"""A ttl whose renewals are so far apart that nobody learns anything by them."""

Make = Callable[[Any, float], Any]


of_every_kind = pytest.mark.parametrize(
    "make",
    [
        lambda locks, ttl: locks.lock("x", ttl=ttl),
        lambda locks, ttl: locks.lock("x", ttl=ttl, owner="ann"),
        lambda locks, ttl: locks.rwlock("x", ttl=ttl).read(),
        lambda locks, ttl: locks.semaphore("x", 2, ttl=ttl),
    ],
    ids=["lock", "owner", "reader", "permit"],
)


@of_every_kind
def test_a_loop_is_told_at_once(server: RedisServer, make: Make) -> None:
    async def story() -> None:
        async with (
            aio.connect(server.url, namespace="t") as locks,
            aio.connect(server.url, namespace="t") as stranger,
        ):
            lease = await make(locks, LONG).acquire()
            other = await stranger.lock("other", ttl=LONG).acquire()
            assert other is not None
            with locknut.connect(server.url, namespace="t") as operator:
                assert operator.force_release("x")
            assert await lease.lost.wait(PATIENCE)
            assert lease.reason == "broken"
            assert other.held
            await other.release()

    asyncio.run(story())


def test_the_body_of_a_broken_lock_is_cancelled_at_once(server: RedisServer) -> None:
    async def story() -> None:
        async with (
            aio.connect(server.url, namespace="t") as locks,
            locks.lock("x", ttl=LONG),
        ):
            assert await locks.force_release("x")
            await asyncio.sleep(PATIENCE)

    with pytest.raises(locknut.LeaseLost, match="broken"):
        asyncio.run(story())


def test_after_a_cut_connection_it_is_told_again(server: RedisServer) -> None:
    async def story() -> None:
        async with aio.connect(server.url, namespace="t") as locks:
            lease = await locks.lock("x", ttl=LONG).acquire()
            assert lease is not None
            server.client_kill()
            async with asyncio.timeout(PATIENCE):
                while server.ask("PUBSUB", "NUMSUB", "locknut:broken") != [b"locknut:broken", 1]:
                    with suppress(locknut.BackendUnavailable):
                        await locks.info("x")  # what is asked next makes a new connection
            assert await locks.force_release("x")
            assert await lease.lost.wait(PATIENCE)

    asyncio.run(story())


def test_a_thread_learns_of_it_by_the_next_renewal(server: RedisServer) -> None:
    with locknut.connect(server.url, namespace="t") as locks:
        lease = locks.lock("x", ttl=3).acquire()
        assert lease is not None
        assert locks.force_release("x", fence=lease.fence)
        assert lease.lost.wait(PATIENCE)
        assert lease.reason == "taken"


def test_what_a_stranger_wrote_there_is_not_told(server: RedisServer) -> None:
    secret = "not the id of a claim, but a secret of somebody"
    server.ask("SET", "t:{x}", secret)
    with server.connect() as ear, locknut.connect(server.url, namespace="t") as locks:
        ear.ask("SUBSCRIBE", "locknut:broken")
        assert locks.force_release("x")
        mine = locks.lock("y").acquire()
        assert mine is not None
        assert locks.force_release("y")
        heard = ear.read()
        assert isinstance(heard, list)
        assert heard[2] == mine._hold.claim.id.encode()


@of_every_kind
def test_a_loop_is_told_why_by_the_message(server: RedisServer, make: Make) -> None:
    async def story() -> None:
        async with aio.connect(server.url, namespace="t") as locks:
            lease = await make(locks, LONG).acquire()
            with locknut.connect(server.url, namespace="t", label="ann") as operator:
                assert operator.force_release("x", reason="stuck")
            assert await lease.lost.wait(PATIENCE)
            assert lease.reason == "broken: stuck (by ann)"

    asyncio.run(story())


@of_every_kind
def test_a_thread_is_told_why_by_the_renewal_that_says_lost(
    server: RedisServer, make: Make
) -> None:
    with (
        locknut.connect(server.url, namespace="t") as locks,
        locknut.connect(server.url, namespace="t", label="ann") as operator,
    ):
        lease = make(locks, LONG).acquire()
        assert operator.force_release("x", fence=lease.fence, reason="stuck")
        with pytest.raises(locknut.LeaseLost, match=r"broken: stuck \(by ann\)"):
            lease.renew()
        assert lease.reason == "broken: stuck (by ann)"


WHY = r"did not have this hold any more \(broken: stuck \(by ann\)\)"


@of_every_kind
def test_a_thread_that_releases_before_it_knows_is_told_why(
    server: RedisServer, make: Make
) -> None:
    with (
        locknut.connect(server.url, namespace="t") as locks,
        locknut.connect(server.url, namespace="t", label="ann") as operator,
        pytest.raises(locknut.LeaseLost, match=WHY),
        make(locks, LONG),
    ):
        assert operator.force_release("x", reason="stuck")


def test_a_task_that_releases_before_it_knows_is_told_why(server: RedisServer) -> None:
    async def story() -> None:
        async with aio.connect(server.url, namespace="t") as locks:
            lease = await locks.lock("x", ttl=LONG).acquire()
            assert lease is not None
            locks._client.backend.listen(lambda *_: None)  # the message is lost
            with locknut.connect(server.url, namespace="t", label="ann") as operator:
                assert operator.force_release("x", reason="stuck")
            with pytest.raises(locknut.LeaseLost, match=WHY):
                await lease.release()

    asyncio.run(story())


def test_several_released_at_once_are_told_why(server: RedisServer) -> None:
    with (
        locknut.connect(server.url, namespace="t") as locks,
        locknut.connect(server.url, namespace="t", label="ann") as operator,
        pytest.raises(locknut.LeaseLost, match=WHY),
        locks.all("x", "y", ttl=LONG),
    ):
        assert operator.force_release("y", reason="stuck")


UNKNOWN = "any more: somebody else"


def hung(server: RedisServer, backend: Any) -> list[bool]:
    """The server hangs right after it has answered the release; whether that was in a hurry."""
    real, hurried = backend.renew, list[bool]()

    async def hangs(claims: Any) -> Any:
        hurried.append(deadlines.hurried())
        server.stop()
        return await real(claims)

    backend.renew = hangs
    return hurried


@pytest.mark.faults
def test_a_thread_does_not_wait_for_the_reason(server: RedisServer) -> None:
    with locknut.connect(server.url, namespace="t") as locks:
        lease = locks.lock("x", ttl=LONG).acquire()
        assert lease is not None
        assert locks.force_release("x", reason="stuck")
        hurried = hung(server, locks._client.backend)
        try:
            with pytest.raises(locknut.LeaseLost, match=UNKNOWN):
                lease.release()
        finally:
            server.cont()
        assert hurried == [True]


@pytest.mark.faults
def test_a_task_does_not_wait_for_the_reason(server: RedisServer) -> None:
    async def story() -> None:
        url = f"{server.url}?socket_timeout={10 * PATIENCE:g}"
        async with aio.connect(url, namespace="t") as locks:
            lease = await locks.lock("x", ttl=LONG).acquire()
            assert lease is not None
            backend: Any = locks._client.backend
            backend.listen(lambda *_: None)  # the message is lost
            assert await locks.force_release("x", reason="stuck")
            hung(server, backend)
            try:
                async with asyncio.timeout(PATIENCE):
                    with pytest.raises(locknut.LeaseLost, match=UNKNOWN):
                        await lease.release()
            finally:
                server.cont()

    asyncio.run(story())


def test_only_who_was_broken_is_told(server: RedisServer) -> None:
    """Neither who holds the other permit, nor who has the lock next and loses it otherwise."""
    with locknut.connect(server.url, namespace="t", label="ann") as locks:
        first, second = (locks.semaphore("x", 2, ttl=LONG).acquire() for _ in range(2))
        assert first is not None
        assert second is not None
        assert locks.force_release("x", fence=first.fence, reason="stuck")
        second.renew()
        third = locks.semaphore("x", 2, ttl=LONG).acquire()
        assert third is not None
        server.ask("DEL", "t:{x}:permits", "t:{x}:permits:info")
        told = {first: "broken: stuck (by ann)", second: "taken", third: "taken"}
        for lease, reason in told.items():
            with pytest.raises(locknut.LeaseLost):
                lease.renew()
            assert lease.reason == reason


def notes_in(server: RedisServer) -> list[bytes]:
    found = server.ask("KEYS", "*:broken:*")
    assert isinstance(found, list)
    return [each for each in found if isinstance(each, bytes)]


def test_a_note_stays_no_longer_than_the_hold_would_have(server: RedisServer) -> None:
    with locknut.connect(server.url, namespace="t") as locks:
        lease = locks.lock("x", ttl=60).acquire()
        assert lease is not None
        assert locks.force_release("x", reason="stuck")
        (name,) = notes_in(server)
        assert name.startswith(b"t:{x}:broken:"), "the ACL's namespace, and the lock's own slot"
        assert lease._hold.claim.id.encode() not in name
        left = server.ask("PTTL", name.decode())
        assert isinstance(left, int)
        assert 0 < left <= 60_000
        assert [each.name for each in locks.list()] == []


def test_the_note_of_a_very_long_hold_stays_for_a_day(server: RedisServer) -> None:
    with locknut.connect(server.url, namespace="t") as locks:
        lease = locks.lock("x", ttl=10 * 86400).acquire()
        assert lease is not None
        assert locks.force_release("x", fence=lease.fence, reason="stuck")
        left = server.ask("PTTL", notes_in(server)[0].decode())
        assert isinstance(left, int)
        assert 80_000_000 < left <= 86_400_000
    server.flushall()  # its fence stays for as long as the hold would have


def test_nothing_is_left_where_there_is_nothing_to_say(server: RedisServer) -> None:
    with locknut.connect(server.url, namespace="t") as locks:
        lease = locks.lock("x", ttl=LONG).acquire()
        assert lease is not None
        assert not locks.force_release("y", reason="stuck")
        with pytest.raises(locknut.StaleFence):
            locks.force_release("x", fence=lease.fence + 32, reason="stuck")
        assert locks.force_release("x")
        assert notes_in(server) == []
        with pytest.raises(locknut.LeaseLost):
            lease.renew()
        assert lease.reason == "taken"


def test_a_break_does_not_depend_on_its_note(server: RedisServer) -> None:
    """The key of the note cannot be written, and what stands there cannot be read as one."""
    with locknut.connect(server.url, namespace="t") as locks:
        lease = locks.lock("x", ttl=LONG).acquire()
        assert lease is not None
        note = f"t:{{x}}:broken:{lease._hold.claim.id[:16]}"
        locks.force_release("other")  # the script is known
        server.ask("ACL", "SETUSER", "default", "resetkeys", "~t:{x}", "~t:{x}:[afilp]*")
        try:
            assert locks.force_release("x", reason="stuck")
        finally:
            server.ask("ACL", "SETUSER", "default", "allkeys")
        server.ask("ACL", "LOG", "RESET")
        server.ask("RPUSH", note, "not a note")
        server.ask("PEXPIRE", note, "60000")
        with pytest.raises(locknut.LeaseLost):
            lease.renew()
        assert lease.reason == "taken"
        assert locks.lock("x").acquire(blocking=False) is not None


def test_a_client_that_knows_no_notes_hears_the_id_alone(server: RedisServer) -> None:
    with server.connect() as ear, locknut.connect(server.url, namespace="t", label="ann") as locks:
        ear.ask("SUBSCRIBE", "locknut:broken")
        mine = locks.lock("y").acquire()
        assert mine is not None
        assert locks.force_release("y", reason="stuck")
        name = mine._hold.claim.id.encode()
        heard = [ear.read(), ear.read()]
        assert [each[2] for each in heard if isinstance(each, list)] == [
            name + b" stuck (by ann)",
            name,
        ]
