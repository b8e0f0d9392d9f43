"""Barriers and latches on the engines; with answers lost; with parties killed and stopped."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import locknut
from locknut import BackendUnavailable, BrokenBarrier, aio
from locknut.core import counting_down, meeting, pacing
from locknut.core.meeting import Arrival, BarrierParty, Fate, Meeting
from locknut.core.register import Pauses, Register, Seen
from locknut.runtimes.threads import run
from tests.servers.cluster import RedisCluster
from tests.servers.databases import Database
from tests.servers.processes import PATIENCE, until
from tests.servers.redis import RedisServer
from tests.servers.sentinel import SentinelService
from tests.uses.barrier_rules import BarrierRules, LatchRules


@pytest.fixture(autouse=True)
def _nobody_in_a_hurry(patient_callers: None) -> None:
    """A busy machine stalls a server for longer than a non-blocking attempt waits for it."""


class _Both(BarrierRules, LatchRules):
    """All that they promise."""


@pytest.mark.memory
class TestMemory(_Both):
    url = "memory:barriers"


@pytest.mark.redis
class TestRedis(_Both):
    @pytest.fixture
    def engine_url(self, redis_server: RedisServer) -> str:
        return redis_server.url


@pytest.mark.slow
@pytest.mark.redis
class TestRedisCluster(_Both):
    @pytest.fixture
    def engine_url(self, redis_cluster: RedisCluster) -> str:
        return redis_cluster.url


@pytest.mark.slow
@pytest.mark.redis
class TestSentinels(_Both):
    @pytest.fixture
    def engine_url(self, redis_sentinel: SentinelService) -> str:
        return redis_sentinel.url


@pytest.mark.sqlite
@pytest.mark.slow
class TestSqlite(_Both):
    @pytest.fixture
    def engine_url(self, tmp_path: Path) -> str:
        return f"sqlite://{tmp_path}/locks.db"


@pytest.mark.slow
@pytest.mark.postgresql
class TestPostgresql(_Both):
    @pytest.fixture
    def engine_url(self, postgresql_database: Database) -> str:
        return postgresql_database.url


@pytest.mark.slow
@pytest.mark.mariadb
class TestMariaDb(_Both):
    @pytest.fixture
    def engine_url(self, mariadb_database: Database) -> str:
        return mariadb_database.url


@pytest.mark.slow
@pytest.mark.mysql
class TestMySql(_Both):
    @pytest.fixture
    def engine_url(self, mysql_database: Database) -> str:
        return mysql_database.url


@pytest.mark.parametrize(
    "url",
    [
        "file:",
        "zookeeper://localhost",
        "etcd://localhost",
        "memcached://localhost",
        "redlock://a,b,c",
        "redis://localhost?layout=redis-py",
        "postgresql://localhost/db?mode=session",
    ],
)
@pytest.mark.parametrize("face", [locknut, aio], ids=["blocking", "asyncio"])
def test_engines_without_them_refuse(url: str, face: Any) -> None:
    locks = face.connect(url)
    for make in (locks.barrier, locks.latch):
        with pytest.raises(locknut.Unsupported, match="barriers and latches work on memory:"):
            make("x", 2)


@pytest.mark.parametrize("wrong", [0, -1, True, 1.5, 65])
def test_a_wrong_number_is_refused(wrong: Any) -> None:
    with locknut.connect("memory:numbers") as locks:
        with pytest.raises(locknut.ConfigurationError, match="parties must be an int from 1 to 64"):
            locks.barrier("x", wrong)
        if wrong != 65:
            with pytest.raises(locknut.ConfigurationError, match="count must be an int"):
                locks.latch("x", wrong)


def test_a_cancelled_party_breaks_it_for_all() -> None:
    async def main() -> None:
        async with aio.connect("memory:cancelled") as locks:
            barrier = locks.barrier("x", 3)
            parties = [asyncio.create_task(barrier.wait()) for _ in range(2)]
            while await barrier.waiting() < 2:  # noqa: ASYNC110  # there is no event of that
                await asyncio.sleep(0)
            parties[0].cancel()
            with pytest.raises(BrokenBarrier, match="interrupted"):
                await parties[1]
            with pytest.raises(asyncio.CancelledError):
                await parties[0]

    asyncio.run(main())


@pytest.mark.parametrize("how", ["reset", "lost"])
def test_who_waits_for_a_latch_is_told_of_its_end(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was counted is not known any more: to wait on could be for ever."""
    with locknut.connect("memory:reset") as locks, locknut.connect("memory:reset") as other:
        other.latch("x", 2).count_down()

        async def sleep(_pauses: object) -> None:
            other.latch("x", 2).reset() if how == "reset" else other.force_release("x@latch")

        monkeypatch.setattr(Pauses, "sleep", sleep)
        with pytest.raises(BrokenBarrier, match="reset, or the engine lost it"):
            locks.latch("x", 2).wait(PATIENCE)


@pytest.mark.parametrize("kind", ["barrier", "latch"])
def test_what_is_waited_for_does_not_run_out(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its time gets less and less, and is whole again."""
    for each in (meeting, counting_down):
        monkeypatch.setattr(each, "TTL", 6.0)
    url = f"memory:kept-{kind}"
    with locknut.connect(url) as locks, locknut.connect(url) as other:
        other.latch("x", 2).count_down()
        waits = {"barrier": other.barrier("x", 2).wait, "latch": other.latch("x", 2).wait}[kind]
        waiting = threading.Thread(target=waits, args=(PATIENCE,))
        waiting.start()
        until(lambda: locks.info(f"x@{kind}").holders, "somebody waits")
        left = [6.0]

        def is_renewed() -> bool:
            (held,) = locks.info(f"x@{kind}").holders
            assert held.ttl_left is not None
            left.append(held.ttl_left)
            return held.ttl_left > min(left) + 1

        until(is_renewed, "it is renewed")
        locks.latch("x", 2).count_down() if kind == "latch" else locks.barrier("x", 2).wait()
        waiting.join(PATIENCE)


# Pure: what the register says, and what a party reads in it.


def test_whose_arrival_was_counted_finds_itself() -> None:
    first = meeting.arrived(Meeting("e", 2), 7)
    assert meeting.arrival_of(first, 7) == Arrival("e", 0, 0)
    full = meeting.arrived(first, 8)
    assert [meeting.arrival_of(full, each) for each in (7, 8)] == [
        Arrival("e", 0, 0),
        Arrival("e", 0, 1),
    ]
    assert meeting.arrival_of(full, 9) is None
    assert meeting.fate_of(full, Arrival("e", 0, 0))[0] is Fate.PASSED
    assert meeting.fate_of(meeting.broken(first, "why"), Arrival("e", 0, 0)) == (Fate.BROKEN, "why")


def test_a_party_that_slept_is_told_what_is_known() -> None:
    state, place = meeting.broken(meeting.arrived(Meeting("e", 2), 7), "why"), Arrival("e", 0, 0)
    for permit in range(100, 100 + 2 * (meeting.REMEMBERED - 1)):
        assert meeting.fate_of(state, place) == (Fate.BROKEN, "why")
        state = meeting.arrived(state, permit)
    for permit in (998, 999):
        state = meeting.arrived(state, permit)
    assert "slept for too long" in meeting.fate_of(state, place)[1]
    assert meeting.fate_of(None, place)[0] is Fate.BROKEN


def test_a_register_that_was_begun_anew_knows_nobody_of_the_one_before() -> None:
    for generation in (0, 1):
        assert meeting.fate_of(Meeting("new", 2, generation), Arrival("e", 0, 0))[0] is Fate.BROKEN


def test_a_timeout_in_the_moment_in_which_the_last_one_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One of the two comes first, for both parties."""
    with locknut.connect("memory:moment") as locks, locknut.connect("memory:moment") as other:
        party, swap, last = BarrierParty(locks._client, "x", 2, None), Register.swap, list[int]()

        async def late(register: Register, seen: Seen, facts: Any) -> bool:
            if facts.broken and not last:
                last.append(other.barrier("x", 2).wait(PATIENCE))
            return await swap(register, seen, facts)

        monkeypatch.setattr(Register, "swap", late)
        assert run(party.meet(locks._client.runtime.now())) == 0
        assert last == [1]


# With a backend that loses answers.


class Lossy:
    """A backend some of whose commands are lost on their way, or their answers on the way back."""

    def __init__(self, inner: Any, chance: random.Random, share: float):
        self._inner = inner
        self._chance = chance
        self.share = share

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name not in {"attach", "attempt", "inspect_holders"}:
            return found

        async def lossy(*args: Any) -> Any:
            lost = self._chance.random()
            if lost < self.share / 2:
                raise BackendUnavailable("lost on the way there")
            answer = await found(*args)
            if lost < self.share:
                raise BackendUnavailable("lost on the way back")
            return answer

        return lossy


@pytest.fixture
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pacing, "backoff", lambda tries, chance: 0.001 * chance)


def lossy_locks(url: str, seed: int, share: float) -> Any:
    locks = locknut.connect(url)
    locks._client.backend = Lossy(locks._client.backend, random.Random(seed), share)
    return locks


@pytest.mark.parametrize("seed", range(6))
def test_lost_answers_never_let_some_pass_and_others_not(seed: int, quick_retries: None) -> None:
    """Nor count an arrival twice: as many pass as there are parties, each in a place of its own."""
    url, parties, rounds = f"memory:lossy-{seed}", 3, 8
    outcomes: dict[tuple[str, int], list[Any]] = defaultdict(list)
    mutex, unknown = threading.Lock(), list[int]()

    def work(number: int) -> None:
        chance = random.Random(f"{seed} {number}")
        with lossy_locks(url, seed * 100 + number, 0.25) as locks:
            for each in range(rounds):  # the first three of the first round pass
                party = BarrierParty(locks._client, "x", parties, None)
                wait = PATIENCE if each == 0 else 0.02 if chance.random() < 0.2 else 0.5
                try:
                    outcome: Any = run(party.meet(locks._client.runtime.now() + wait))
                except BrokenBarrier:
                    outcome = "broken"
                except BackendUnavailable:
                    unknown.append(number)  # two generations went by before it could ask again
                    continue
                assert party._arrival is not None
                with mutex:
                    outcomes[party._arrival[:2]].append(outcome)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert not any(thread.is_alive() for thread in threads)
    passed = [told for told in outcomes.values() if "broken" not in told]
    mixed = [told for told in outcomes.values() if "broken" in told and set(told) != {"broken"}]
    assert passed
    assert not mixed
    assert all(len(set(told)) == len(told) <= parties for told in passed)
    assert unknown or all(sorted(told) == list(range(parties)) for told in passed)


@pytest.mark.parametrize("seed", range(4))
def test_lost_answers_count_down_once(seed: int, quick_retries: None) -> None:
    url = f"memory:lossy-latch-{seed}"

    def work(number: int) -> None:
        with lossy_locks(url, seed * 100 + number, 0.3) as locks:
            for _ in range(6):
                locks.latch("x", 25).count_down()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    with locknut.connect(url) as locks:
        assert locks.latch("x", 25).left() == 1


def test_an_engine_out_of_reach_is_an_error(
    monkeypatch: pytest.MonkeyPatch, quick_retries: None
) -> None:
    monkeypatch.setattr(pacing, "OUTAGE_PATIENCE", 0.05)
    locks = lossy_locks("memory:unreachable", 1, 0.0)
    with locks:
        locks._client.backend.share = 2.0
        with pytest.raises(BackendUnavailable):
            locks.latch("x", 2).count_down()
        with pytest.raises(BackendUnavailable):
            locks.barrier("x", 2).wait(1)
        locks._client.backend.share = 0.0


@pytest.mark.parametrize("verb", ["attempt", "inspect_holders", "attach"])
def test_an_engine_that_comes_back_in_time_costs_no_party_its_place(
    verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each command, the first for a permit too, has the patience that a lock has, whatever the one
    command took that showed the outage.
    """
    url, lost = "memory:back-in-time", list[float]()
    with locknut.connect(url) as locks, locknut.connect(url) as other:
        backend, patience = locks._client.backend, 0.2
        monkeypatch.setattr(meeting, "LOOK", 2 * patience)
        monkeypatch.setattr(pacing, "OUTAGE_PATIENCE", 4 * patience)
        answer = getattr(backend, verb)

        async def silent_at_first(*args: Any) -> Any:
            if not lost:
                lost.append(time.monotonic())
                time.sleep(5 * patience)  # noqa: ASYNC251  # a blocking leaf blocks
            if time.monotonic() < lost[0] + 6 * patience:
                raise BackendUnavailable("no answer")
            return await answer(*args)

        monkeypatch.setattr(backend, verb, silent_at_first)
        with ThreadPoolExecutor(1) as another:
            first = another.submit(other.barrier("x", 2).wait, PATIENCE)
            until(lambda: other.barrier("x", 2).waiting() == 1, "it never came")
            assert locks.barrier("x", 2).wait(PATIENCE) == 1
            assert first.result(PATIENCE) == 0
        assert lost


# Real processes.

PROGRAM = """
import sys, locknut
with locknut.connect(sys.argv[1], namespace=sys.argv[2]) as locks:
    try:
        print(locks.barrier("x", 3, ttl=float(sys.argv[3])).wait(60), flush=True)
    except locknut.BrokenBarrier as error:
        print("broken", flush=True)
"""
Start = Callable[[float], "subprocess.Popen[str]"]


@pytest.fixture
def start(redis_server: RedisServer) -> Iterator[Start]:
    redis_server.flushall()
    started: list[subprocess.Popen[str]] = []

    def begin(ttl: float) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", PROGRAM, redis_server.url, "processes", f"{ttl}"]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        return started[-1]

    yield begin
    for each in started:
        each.kill()
        each.communicate(timeout=PATIENCE)


@pytest.mark.slow
@pytest.mark.redis
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_party_that_is_killed_or_stopped(
    redis_server: RedisServer, start: Start, how: signal.Signals
) -> None:
    """The others are told; what went on without it does not confuse it when it goes on."""
    with locknut.connect(redis_server.url, namespace="processes") as locks:
        barrier = locks.barrier("x", 3)
        victim = start(8)
        until(lambda: barrier.waiting() == 1, "the victim never came")
        other = start(30)
        until(lambda: barrier.waiting() == 2, "the other one never came")
        os.kill(victim.pid, how)
        assert other.communicate(timeout=PATIENCE)[0] == "broken\n"
        parties = [start(30), start(30)]
        assert barrier.wait(PATIENCE) in range(3)
        assert {each.communicate(timeout=PATIENCE)[0] for each in parties} <= {"0\n", "1\n", "2\n"}
        if how is signal.SIGSTOP:
            os.kill(victim.pid, signal.SIGCONT)
            assert victim.communicate(timeout=PATIENCE)[0] == "broken\n"


@pytest.mark.redis
def test_a_server_that_lost_its_data(redis_server: RedisServer, start: Start) -> None:
    with locknut.connect(redis_server.url, namespace="processes") as locks:
        barrier = locks.barrier("x", 3)
        parties = [start(30), start(30)]
        until(lambda: barrier.waiting() == 2, "they never came")
        redis_server.flushall()
        assert [each.communicate(timeout=PATIENCE)[0] for each in parties] == ["broken\n"] * 2
