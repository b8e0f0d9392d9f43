"""The line and the grants that are pushed: when they are believed, and who gets them."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

import locknut
from locknut import aio
from locknut.backends.redis import waiting_claims
from locknut.core import pacing
from locknut.core.values import Answer, Busy, Claim, Granted, Mode
from locknut.runtimes import clock
from locknut.runtimes.threads import ThreadRuntime, run
from tests.backends.redis.conftest import PATIENCE, claim, engine, eventually
from tests.servers.redis import RedisServer

pytestmark = pytest.mark.redis


def ask(backend: object, wish: Claim) -> Answer:
    answer: Answer = run(backend.attempt(wish, 0.0))  # type: ignore[attr-defined]
    return answer


def granted(answer: Answer) -> Granted:
    assert isinstance(answer, Granted), answer
    return answer


def test_a_grant_that_lay_in_the_inbox_counts_from_before_it(server: RedisServer) -> None:
    """S1: the waiter is stopped between two slices, its grant runs out, the next one is granted."""
    port: Any = engine(server).blocking(ThreadRuntime())
    holder, first, second = claim(), claim(), claim()
    granted(ask(port, holder))
    asked = clock.now()
    assert isinstance(ask(port, first), Busy)
    answered = clock.now()
    with port.watch(first, ThreadRuntime().signal) as inbox:
        assert run(port.release(holder))  # now the grant lies there, and nobody reads it
        eventually(lambda: not server.ask("EXISTS", "t:{x}"), "the grant did not run out")
        granted(ask(port, second))
        # The message is gone with the grant; what a slower expiry would leave is put back by hand.
        raw = server.ask("GET", "t:{x}:fence")
        assert isinstance(raw, bytes)
        old = first.id + str(int(raw) - 1)
        server.ask("RPUSH", f"t:{{x}}:inbox:{first.id[:16]}0", old)
        assert run(inbox.wait(clock.now() + PATIENCE))
        place = port._waiting[first.id]
        pushed = place.pushed
        assert pushed is not None
        assert pushed.anchor is not None
        assert asked <= pushed.anchor <= answered
        assert pacing.validity(pushed.anchor, pushed.ttl) < clock.now(), "or it would be believed"
        assert isinstance(ask(port, first), Busy), "the server is asked, and says whose it is"
    run(port.release(first))
    run(port.release(second))
    run(port.close())


@pytest.mark.slow
def test_an_owner_enters_his_own_hold_past_those_who_wait_for_it(server: RedisServer) -> None:
    """Behind them he would wait for himself: they wait until all of his claims are released."""
    port = engine(server).blocking(ThreadRuntime())
    first, stranger, second = claim(owner="a"), claim(), claim(owner="a")
    number = granted(ask(port, first)).raw
    assert isinstance(ask(port, stranger), Busy)
    other = claim(owner="b")
    assert isinstance(ask(port, other), Busy)
    assert granted(ask(port, second)).raw == number
    for each in (other, first, second, stranger):
        run(port.release(each))
    run(port.close())


def test_a_grant_that_comes_in_one_piece_with_not_yet_is_heard(server: RedisServer) -> None:
    """The loop is busy while the lock is first refused and then granted: it reads both at once."""

    async def story() -> None:
        async with aio.connect(server.url, namespace="t") as locks:
            async with locks.lock("warm"):
                pass
            other = engine(server).blocking(ThreadRuntime())
            holder = claim()
            granted(ask(other, holder))
            waiting = asyncio.create_task(locks.lock("x").acquire())
            while not server.ask("EXISTS", "t:{x}:line"):  # noqa: ASYNC110 -- turn by turn
                await asyncio.sleep(0)
            assert run(other.release(holder))  # the loop stands still: refusal and grant lie there
            asked = server.info("commandstats")["cmdstat_evalsha"].split(",")[0]
            lease = await waiting
            assert server.info("commandstats")["cmdstat_evalsha"].split(",")[0] == asked
            assert lease is not None
            await lease.release()
            run(other.close())

    asyncio.run(story())


def test_an_asyncio_grant_counts_from_the_last_answer_before_it(server: RedisServer) -> None:
    async def story() -> None:
        async with aio.connect(server.url, namespace="t") as locks:
            port = locks._client.backend
            holder, waiter = claim(), claim()
            granted(await port.attempt(holder, 0.0))
            before = clock.now()
            assert isinstance(await port.attempt(waiter, 0.0), Busy)
            after = clock.now()
            other = engine(server).blocking(ThreadRuntime())
            with port.watch(waiter, locks._client.runtime.signal) as signal:
                assert isinstance(await port.attempt(waiter, 0.0), Busy)
                assert await asyncio.to_thread(lambda: run(other.release(holder)))
                assert await signal.wait(clock.now() + 20)
                pushed = granted(await port.attempt(waiter, 0.0))
            assert pushed.anchor is not None
            assert before <= pushed.anchor <= after
            assert pushed.ttl == 3.0
            await port.release(waiter)
            await other.close()

    asyncio.run(story())


@pytest.mark.parametrize(
    ("message", "believed"),
    [("{id}8", True), ("{id}7", False), ("{id}6", False), ("{other}9", False)],
)
def test_a_message_of_another_claim_or_an_older_grant_is_dropped(
    message: str, believed: bool
) -> None:
    mine = claim()
    place = waiting_claims.WaitingClaim(mine)
    place.not_yet(10.0, 7, 1.0)
    assert place.take_message(message.format(id=mine.id, other="f" * 32).encode(), 10.0) is believed
    assert (place.pushed is not None) is believed


def test_a_grant_that_ran_out_before_the_last_question_is_forgotten() -> None:
    mine = claim()
    place = waiting_claims.WaitingClaim(mine)
    place.not_yet(10.0, 7, 1.0)
    assert place.take_message(f"{mine.id}8".encode(), 10.0)
    place.not_yet(14.0, 8, 1.0)
    assert place.answer(14.1) is None


@pytest.mark.slow
def test_fifty_dead_heads_cost_one_step(server: RedisServer) -> None:
    port, other = engine(server).blocking(ThreadRuntime()), engine(server).blocking(ThreadRuntime())
    holder, dead, alive = claim(), [claim() for _ in range(50)], claim()
    granted(ask(port, holder))
    for each in dead:
        assert isinstance(ask(other, each), Busy)
    # One client for all its claims, and it is silent for longer than a live one would be.
    (client,) = server.ask("ZRANGE", "t:{x}:alive", 0, -1)  # type: ignore[misc]
    server.ask("ZADD", "t:{x}:alive", 1, client)  # type: ignore[arg-type]
    run(other.close())
    assert isinstance(ask(port, alive), Busy)
    assert run(port.release(holder))
    assert server.ask("GETRANGE", "t:{x}", 0, 31) == alive.id.encode()
    assert server.ask("ZCARD", "t:{x}:line") == 0
    granted(ask(port, alive))
    assert run(port.release(alive))
    run(port.close())


@pytest.mark.slow
def test_a_dead_waiter_holds_the_lock_up_for_its_short_grant_only(server: RedisServer) -> None:
    port = engine(server).blocking(ThreadRuntime())
    holder, dead, alive = claim(), claim(), claim(ttl=60.0)
    granted(ask(port, holder))
    for each in (dead, alive):
        assert isinstance(ask(port, each), Busy)
    assert run(port.release(holder))
    assert server.ask("GETRANGE", "t:{x}", 0, 31) == dead.id.encode()
    left = server.ask("PTTL", "t:{x}")
    assert isinstance(left, int)
    assert left <= 3000
    eventually(lambda: isinstance(ask(port, alive), Granted), "never granted")
    assert run(port.release(alive))
    run(port.close())


@pytest.mark.slow
def test_only_the_first_two_are_told_when_the_hold_runs_out(server: RedisServer) -> None:
    port = engine(server).blocking(ThreadRuntime())
    holder, waiters = claim(ttl=0.9), [claim() for _ in range(4)]
    granted(ask(port, holder))
    told = [ask(port, each) for each in waiters]
    assert [isinstance(each, Busy) and each.retry_in <= 0.902 for each in told] == [
        True, True, False, False
    ]  # fmt: skip
    for each in [holder, *waiters]:
        run(port.release(each))
    run(port.close())


@pytest.mark.slow
def test_readers_up_to_the_next_writer_are_let_in_by_one_release(server: RedisServer) -> None:
    port = engine(server).blocking(ThreadRuntime())
    writer, last, late = claim(), claim(), claim(mode=Mode.SHARED)
    readers = [claim(mode=Mode.SHARED) for _ in range(3)]
    granted(ask(port, writer))
    for each in [*readers, last, late]:
        assert isinstance(ask(port, each), Busy)
    assert run(port.release(writer))
    assert server.ask("ZCARD", "t:{x}") == 3
    raws = {granted(ask(port, each)).raw for each in readers}
    assert len(raws) == 3
    for each in (last, late):
        assert isinstance(ask(port, each), Busy)
    for each in readers:
        assert run(port.release(each))
    granted(ask(port, last))
    assert run(port.release(last))
    granted(ask(port, late))
    assert run(port.release(late))
    run(port.close())


@pytest.mark.parametrize("part", ["line", "info"])
@pytest.mark.slow
def test_the_line_stays_as_long_as_somebody_is_alive_in_it(server: RedisServer, part: str) -> None:
    """Each of its keys has an end of its own, which others may have set to be near or far."""
    port, holder, waiter = engine(server).blocking(ThreadRuntime()), claim(), claim()
    granted(ask(port, holder))
    assert isinstance(ask(port, waiter), Busy)
    for key in ("alive", "line", "info"):
        server.ask("PEXPIRE", f"t:{{x}}:{key}", 2900 if key == part else 60_000)
    assert isinstance(ask(port, waiter), Busy)
    left = server.ask("PTTL", f"t:{{x}}:{part}")
    assert isinstance(left, int)
    assert left > 3000, "a waiter is taken for alive for so long"
    run(port.release(holder))
    run(port.release(waiter))
    run(port.close())


def keys(server: RedisServer) -> set[str]:
    found = server.ask("KEYS", "t:*")
    assert isinstance(found, list)
    return {str(each) for each in found}


@pytest.mark.parametrize("mode", list(Mode))
def test_a_refused_try_is_one_command_and_leaves_nothing(server: RedisServer, mode: Mode) -> None:
    port: Any = engine(server).blocking(ThreadRuntime())
    holder = claim(mode=mode) if mode is Mode.PERMIT else claim()
    granted(ask(port, holder))
    before = keys(server)
    assert ask(port, claim(mode=mode, waits=False)) == Busy(1.0, queued=False)
    assert keys(server) == before
    assert not port._waiting
    with locknut.connect(server.url, namespace="t") as locks:
        lock = locks.semaphore("x", permits=1) if mode is Mode.PERMIT else locks.lock("x")
        server.ask("CONFIG", "RESETSTAT")
        assert lock.acquire(blocking=False) is None
        assert server.info("commandstats")["cmdstat_evalsha"].startswith("calls=1,")
    run(port.release(holder))
    run(port.close())


def test_three_client_commands_per_hand_over(server: RedisServer) -> None:
    """Ask, sleep on the inbox, release; whatever the scripts do inside is not counted here."""
    rounds = 20
    with (
        locknut.connect(server.url, namespace="t") as one,
        locknut.connect(server.url, namespace="t") as two,
    ):

        def work(locks: locknut.Locks) -> None:
            for _ in range(rounds):
                with locks.lock("x"):
                    time.sleep(0.002)  # long enough for the other to be in line again

        for locks in (one, two):  # connected, and the scripts are known
            with locks.lock("x"):
                pass
        server.ask("CONFIG", "RESETSTAT")
        threads = [threading.Thread(target=work, args=(each,)) for each in (one, two)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        stats = server.info("commandstats")
    calls = {name: int(stat.split(",")[0].removeprefix("calls=")) for name, stat in stats.items()}
    sent = calls["cmdstat_evalsha"] + calls.get("cmdstat_blpop", 0)
    assert sent <= 3 * 2 * rounds


@pytest.mark.parametrize("outcome_unknown", [False, True])
@pytest.mark.slow
def test_the_book_of_who_waits_never_runs_out_before_the_line(
    server: RedisServer, outcome_unknown: bool
) -> None:
    """Or those who stand there would be dropped, and lose their places."""
    port, holder, waiters = engine(server).blocking(ThreadRuntime()), claim(), [claim(), claim()]
    granted(ask(port, holder))
    run(
        port.release(claim(), outcome_unknown=outcome_unknown)
    )  # with a tombstone the line stays for a minute
    for each in waiters:
        assert isinstance(ask(port, each), Busy)
    line, book = (server.ask("PTTL", f"t:{{x}}:{part}") for part in ("line", "info"))
    assert isinstance(line, int)
    assert isinstance(book, int)
    assert 0 < line <= book + 50
    for each in [holder, *waiters]:
        run(port.release(each))
    run(port.close())


@pytest.mark.parametrize("verb", ["attempt", "attempt_all", "renew", "release", "inspect"])
@pytest.mark.slow
def test_who_is_let_in_by_others_does_not_run_out_with_those_before(
    server: RedisServer, verb: str
) -> None:
    """A grant in a key that ends with its older members would be gone, and given once more."""
    port, other = engine(server).blocking(ThreadRuntime()), claim("y")
    gone, stays, first, second, stranger = (claim(mode=Mode.PERMIT, permits=2) for _ in range(5))
    for each in (gone, stays):
        granted(ask(port, each))
    for each in (first, second):
        assert isinstance(ask(port, each), Busy)
    name = "t:{x}:permits"
    server.ask("ZADD", name, 1, gone.id)  # its time is over
    server.ask("PEXPIRE", name, 1000)  # as if the one that is left had no more than this
    if verb == "attempt":
        ask(port, stranger)
    elif verb == "attempt_all":
        run(port.attempt_all([stranger, other]))
    elif verb == "renew":
        run(port.renew([stranger]))
    elif verb == "release":
        run(port.release(stranger))
    else:
        run(port.inspect("t:x"))
    assert server.ask("ZSCORE", name, first.id) is not None
    left = server.ask("PTTL", name)
    assert isinstance(left, int)
    assert left > 2000
    for each in (stays, first, second, stranger, other):
        run(port.release(each))
    run(port.close())


@pytest.mark.slow
def test_a_claim_that_was_granted_twice_has_the_later_number(server: RedisServer) -> None:
    """Its first grant ran out unread, a late question put it in line again, and it was granted."""
    port: Any = engine(server).blocking(ThreadRuntime())
    late = engine(server).blocking(ThreadRuntime())
    holder, slow, other = claim(), claim(), claim()
    first = granted(ask(port, holder)).raw
    assert isinstance(ask(port, slow), Busy)
    with port.watch(slow, ThreadRuntime().signal):
        run(port.release(holder))
        place = port._waiting[slow.id]
        assert place.take_message(f"{slow.id}{first + 1}".encode(), clock.now() - 2.0)  # read late
        server.ask("DEL", "t:{x}")  # the grant is over
        between = granted(ask(late, other)).raw
        assert isinstance(ask(late, slow), Busy)  # stuck in a connection until now
        run(late.release(other))
        again = granted(ask(port, slow))
    assert again.raw > between > first
    assert again.anchor is None
    run(port.release(slow))
    run(port.close())
    run(late.close())
