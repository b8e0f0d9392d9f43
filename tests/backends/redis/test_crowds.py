"""A lock that had to be waited for: the next one asks and goes to sleep in one write."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from concurrent.futures import Future

import pytest

import locknut
from locknut.backends.redis import inboxes
from locknut.backends.redis.backend import RedisBackend
from locknut.core.ports import Backend
from locknut.core.values import Answer, Busy, Claim, Granted
from locknut.errors import BackendUnavailable
from locknut.runtimes import clock
from locknut.runtimes.threads import ThreadRuntime, run
from locknut.urls import open_engine
from tests.backends.redis.conftest import claim, engine, eventually
from tests.servers.redis import RedisServer

pytestmark = pytest.mark.redis
LONG = 60.0


@pytest.fixture
def port(
    server: RedisServer,
    monkeypatch: pytest.MonkeyPatch,
    other: Backend,
) -> Iterator[RedisBackend]:
    """A client that has found "t:x" crowded, and sleeps for so long that no test sees its end."""
    monkeypatch.setattr(inboxes, "SLICE", LONG / 2)
    made = open_engine(f"{server.url}?socket_timeout={LONG}")[0].blocking(ThreadRuntime())
    assert isinstance(made, RedisBackend)
    made._crowded.add("t:x")
    yield made
    run(made.close())


@pytest.fixture
def other(server: RedisServer) -> Iterator[Backend]:
    """Another client, which has used all scripts."""
    made = engine(server).blocking(ThreadRuntime())
    wish = claim("warm")
    run(made.attempt(wish, 0.0))
    run(made.release(wish))
    yield made
    run(made.close())


def asleep(server: RedisServer) -> bool:
    return server.info("clients")["blocked_clients"] == "1"


def sleeper(server: RedisServer) -> str:
    """The connection that sleeps, by the server's number."""
    told = server.ask("CLIENT", "LIST")
    assert isinstance(told, bytes)
    (found,) = re.findall(r"^id=(\d+) .* cmd=blpop ", told.decode(), re.MULTILINE)
    return str(found)


def in_a_thread(port: RedisBackend, wish: Claim, patience: float = LONG) -> Future[Answer]:
    answer: Future[Answer] = Future()

    def ask() -> None:
        try:
            answer.set_result(run(port.attempt(wish, patience)))
        except BaseException as error:  # noqa: BLE001  # for whoever looks at the answer
            answer.set_exception(error)

    threading.Thread(target=ask, daemon=True).start()
    return answer


def test_the_grant_comes_without_another_question(
    server: RedisServer, port: RedisBackend, other: Backend
) -> None:
    holder, wish = claim(), claim()
    assert isinstance(run(other.attempt(holder, 0.0)), Granted)
    before = clock.now()
    answer = in_a_thread(port, wish)
    eventually(lambda: asleep(server), "it does not sleep in BLPOP")
    after = clock.now()
    server.ask("CONFIG", "RESETSTAT")
    assert run(other.release(holder))
    got = answer.result(LONG)
    assert isinstance(got, Granted)
    assert got.anchor is not None
    assert before <= got.anchor <= after, "from when it was asked for, not from when it came (S1)"
    calls = server.info("commandstats")["cmdstat_evalsha"]
    assert calls.startswith("calls=1,"), "the release, and no other"
    assert run(port.release(wish))


def test_what_turns_out_to_be_free_holds_up_nothing(
    server: RedisServer, port: RedisBackend
) -> None:
    wish = claim()
    got = run(port.attempt(wish, LONG))
    assert isinstance(got, Granted)
    assert got.anchor is None
    assert not asleep(server)
    assert "t:x" not in port._crowded, "the next one asks in the short way"
    again = run(port.attempt(wish, LONG))
    assert isinstance(again, Granted)
    assert again.raw == got.raw
    assert run(port.release(wish))


def test_asked_once_more_it_finds_its_own_and_does_not_sleep(
    server: RedisServer, port: RedisBackend, other: Backend
) -> None:
    """The first sending was by another, who was interrupted."""
    wish = claim()
    first = run(other.attempt(wish, 0.0))
    got = run(port.attempt(wish, LONG))
    assert isinstance(got, Granted)
    assert isinstance(first, Granted)
    assert got.raw == first.raw
    assert not asleep(server)
    assert run(port.release(wish))


def test_a_script_that_the_server_forgot_is_loaded(
    server: RedisServer, port: RedisBackend, other: Backend
) -> None:
    holder, wish = claim(), claim()
    assert isinstance(run(other.attempt(holder, 0.0)), Granted)
    server.ask("SCRIPT", "FLUSH")
    assert isinstance(run(port.attempt(wish, LONG)), Busy)
    assert port._waiting[wish.id].generation == 1, "the first inbox has a reader"
    eventually(lambda: not asleep(server), "that connection is not used any more")
    run(port.release(wish))
    assert run(other.release(holder))


def test_who_is_told_that_the_hold_runs_out_asks_then(
    server: RedisServer, port: RedisBackend, other: Backend
) -> None:
    """Not at the end of the slice: nobody will be woken for it."""
    holder, wish = claim(ttl=0.3), claim()
    assert isinstance(run(other.attempt(holder, 0.0)), Granted)
    assert isinstance(run(port.attempt(wish, LONG)), Busy)
    assert port._waiting[wish.id].generation == 1
    eventually(lambda: not server.ask("EXISTS", "t:{x}"), "it did not run out")
    assert isinstance(run(port.attempt(wish, LONG)), Granted)
    assert run(port.release(wish))


def test_an_old_message_is_not_believed(
    server: RedisServer, port: RedisBackend, other: Backend
) -> None:
    """An earlier grant of the same claim ran out; what a slower expiry would leave is there."""
    holder, wish = claim(), claim()
    got = run(other.attempt(holder, 0.0))
    assert isinstance(got, Granted)
    server.ask("RPUSH", f"t:{{x}}:inbox:{wish.id[:16]}0", wish.id + str(got.raw))
    assert isinstance(run(port.attempt(wish, LONG)), Busy)
    run(port.release(wish))
    assert run(other.release(holder))


def test_after_a_broken_connection_another_inbox_is_read(
    server: RedisServer, port: RedisBackend, other: Backend
) -> None:
    """L5: the server may not know yet that nobody sleeps at the first one any more."""
    holder, wish = claim(), claim()
    assert isinstance(run(other.attempt(holder, 0.0)), Granted)
    answer = in_a_thread(port, wish)
    eventually(lambda: asleep(server), "it does not sleep in BLPOP")
    server.ask("CLIENT", "KILL", "ID", sleeper(server))
    with pytest.raises(BackendUnavailable):
        answer.result(LONG)
    assert port._waiting[wish.id].generation == 1
    run(port.release(wish, outcome_unknown=True))
    assert run(other.release(holder))


def test_closing_wakes_who_sleeps(server: RedisServer) -> None:
    with locknut.connect(server.url, namespace="t") as holders:
        locks = locknut.connect(server.url, namespace="t")
        backend = locks._client.backend
        assert isinstance(backend, RedisBackend)
        backend._crowded.add("t:x")
        told: list[BaseException] = []

        def wait() -> None:
            try:
                locks.lock("x").acquire()
            except locknut.LocknutError as error:
                told.append(error)

        with holders.lock("x"):
            waiter = threading.Thread(target=wait)
            waiter.start()
            eventually(lambda: asleep(server), "it does not sleep in BLPOP")
            locks.close()
            waiter.join(LONG)
            assert isinstance(told[0], locknut.ConfigurationError)
            assert not holders.info("x").waiters


def test_who_waited_once_is_expected_to_wait_again(server: RedisServer) -> None:
    """Two clients that take turns: from the second time on one write asks and sleeps."""
    first = locknut.connect(server.url, namespace="t")
    second = locknut.connect(server.url, namespace="t")
    fences: list[int] = []

    def take() -> None:
        with second.lock("x") as lease:
            fences.append(lease.fence)

    with first, second:
        for _ in range(3):
            with first.lock("x") as mine:
                fences.append(mine.fence)
                waiter = threading.Thread(target=take)
                waiter.start()
                eventually(lambda: asleep(server), "it does not sleep in BLPOP")
            waiter.join(LONG)
            backend = second._client.backend
            assert isinstance(backend, RedisBackend)
            assert backend._crowded == {"t:x"}
    assert len(fences) == 6
    assert fences == sorted(fences)


def test_a_timeout_is_kept_on_a_server_that_has_nothing_to_do(server: RedisServer) -> None:
    """It looks ten times a second whether a BLPOP is over, so one of 10 ms takes 100."""
    with locknut.connect(server.url) as other, locknut.connect(server.url) as locks:
        other.lock("x").acquire()

        def took() -> float:
            asked = clock.now()
            assert locks.lock("x").acquire(timeout=0.01) is None
            return clock.now() - asked

        took()
        assert min(took() for _ in range(8)) < 0.06  # each of them but for the machine's own pauses


def test_no_grant_is_lost_to_a_sleep_that_was_given_up(server: RedisServer) -> None:
    """The server may still answer it, to a connection that nobody reads any more."""
    with locknut.connect(server.url) as other, locknut.connect(server.url) as locks:
        for _ in range(20):
            lease = other.lock("x").acquire(timeout=LONG)
            assert lease is not None
            assert locks.lock("x").acquire(timeout=0.001) is None
            lease.release()
            ours = locks.lock("x").acquire(timeout=LONG)
            assert ours is not None
            ours.release()
