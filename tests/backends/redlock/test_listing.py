"""Listing many locks: a few questions to each node, and the majority of each lock."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from locknut.backends.redlock import majority_view
from locknut.core.values import LockInfo
from locknut.opening import Settings
from locknut.testing.conformance.colours import COLOURS
from locknut.urls import open_engine
from tests.backends.redlock.reaching import reach_all
from tests.servers.redis import RedisServer
from tests.servers.redlock import RedlockNodes

pytestmark = [pytest.mark.redis, pytest.mark.parametrize("colour", list(COLOURS))]
MANY = 250
HELD = """
for at = 1, tonumber(ARGV[1]) do
  local hold = 'locknut:{job ' .. at .. '}:redlock'
  local id = string.format('%032x', at)
  redis.call('zadd', hold, ARGV[2], id)
  redis.call('hset', hold .. ':info', '=' .. id, 'x ' .. at .. ' ' .. ARGV[3])
end
"""
"""As a vote leaves it on a node, for very many locks."""
WAITING = """
for at = 1, tonumber(ARGV[2]) do
  local id = string.format('%032x', at)
  redis.call('zadd', ARGV[1] .. ':line', at, id)
  redis.call('zadd', ARGV[1] .. ':alive', ARGV[3], id)
  redis.call('hset', ARGV[1] .. ':info', id, 'x bell ' .. ARGV[4])
end
"""
SHOWN = "1700000000" + "0" * 10 + json.dumps(["host", 1, "who", "", None])


def told(nodes: RedlockNodes, colour: str, ask: Callable[[Any], Any]) -> Any:
    """By a client that is connected to all nodes."""
    paint = COLOURS[colour]()

    async def story() -> Any:
        locks: Any = paint.locks(open_engine(nodes.url)[0], Settings("locknut"))
        await reach_all(paint, locks, nodes, "warm")
        answer = await ask(locks)
        await locks.close()
        return answer

    return paint.run(story())


def held(node: RedisServer, count: int = MANY, ends_in: float = 60.0) -> None:
    seconds, micros = node.ask("TIME")  # type: ignore[misc]
    ends = int(seconds) * 1000 + int(micros) // 1000 + int(ends_in * 1000)  # type: ignore[arg-type]
    node.ask("EVAL", HELD, 0, count, ends, SHOWN)


def calls(node: RedisServer, verb: str) -> int:
    stat = node.info("commandstats").get(f"cmdstat_{verb}", "calls=0,")
    return int(stat.partition("calls=")[2].partition(",")[0])


def test_many_locks_are_a_few_questions(three: RedlockNodes, colour: str) -> None:
    """Each node is asked about so many at once; in steps, so that votes do not wait for long."""
    for node in three.nodes:
        held(node)

    async def listing(locks: Any) -> tuple[list[LockInfo], list[int]]:
        await locks.list()  # the script is known from now on
        before = [node.scripts_run() for node in three.nodes]
        found = await locks.list()
        return found, [n.scripts_run() - b for n, b in zip(three.nodes, before, strict=True)]

    found, asked = told(three, colour, listing)
    assert sorted(each.name for each in found) == sorted(f"job {n + 1}" for n in range(MANY))
    assert all(len(each.holders) == 1 and not each.waiters for each in found)
    assert all(vote.agrees for each in found for vote in each.details)
    assert asked == [-(-MANY // majority_view.BATCH)] * 3


def test_a_list_says_of_each_what_is_said_of_one(three: RedlockNodes, colour: str) -> None:
    paint = COLOURS[colour]()

    async def both(locks: Any) -> list[tuple[LockInfo, LockInfo]]:
        others: Any = paint.locks(open_engine(three.url)[0], Settings("locknut"))
        owned = [await locks.lock("owned", owner="us", ttl=60).acquire() for _ in range(2)]
        readers = [locks.rwlock("read").read() for _ in range(2)]
        leases = [await locks.lock("plain").acquire(), await readers[0].acquire(), *owned]
        leases.append(await locks.rwlock("written").write().acquire())
        wanted = [others.lock(name) for name in ("plain", "read")]
        waiting = [paint.spawn(partial(each.acquire, timeout=20)) for each in wanted]
        while not all([(await locks.info(name)).waiters for name in ("plain", "read")]):
            await paint.pause(0.01)
        while True:  # the last votes may come after the lease
            listed = {each.name: each for each in await locks.list()}
            alone = [await locks.info(name) for name in sorted(listed)]
            if all(vote.agrees for each in alone for vote in each.details):
                break
        for each in leases:
            await each.release()
        for worker in waiting:
            lease = await worker.result()
            assert lease is not None
        await others.close()
        return [(listed[each.name], each) for each in alone]

    pairs = told(three, colour, both)
    assert [one.name for _, one in pairs] == ["owned", "plain", "read", "written"]
    for listed, one in pairs:
        assert whole(listed) == whole(one)


def whole(info: LockInfo) -> LockInfo:
    """Without the time that is left."""
    details = [each._replace(holders=tuple(map(_timeless, each.holders))) for each in info.details]
    return info._replace(holders=tuple(map(_timeless, info.holders)), details=tuple(details))


def _timeless(holder: Any) -> Any:
    assert 0 < holder.ttl_left <= 61
    return holder._replace(ttl_left=None)


def test_who_is_over_is_not_listed_and_stays_for_the_verbs_to_tidy(
    three: RedlockNodes, colour: str
) -> None:
    for node in three.nodes:
        held(node, 3, ends_in=-1.0)
        node.ask("EVAL", WAITING, 0, "locknut:{job 1}:redlock", 2, 1, SHOWN)

    async def listing(locks: Any) -> list[LockInfo]:
        found: list[LockInfo] = await locks.list()
        return found

    assert told(three, colour, listing) == []
    assert three.nodes[0].ask("ZCARD", "locknut:{job 1}:redlock") == 1
    assert three.nodes[0].ask("ZCARD", "locknut:{job 1}:redlock:line") == 2


def test_long_lines_are_looked_at_in_several_steps(three: RedlockNodes, colour: str) -> None:
    """No script is about more than so many claims, or a little more; all of them are seen."""
    far = 4_000_000_000_000
    for node in three.nodes:
        for name in range(4):
            node.ask("EVAL", WAITING, 0, f"locknut:{{line {name}}}:redlock", 300, far, SHOWN)

    async def listing(locks: Any) -> tuple[list[LockInfo], int]:
        await locks.list()
        before = three.nodes[0].scripts_run()
        return await locks.list(), three.nodes[0].scripts_run() - before

    found, asked = told(three, colour, listing)
    assert [(each.name, len(each.waiters)) for each in found] == [
        (f"line {name}", 300) for name in range(4)
    ]
    assert asked == 2


def test_a_name_with_keys_of_another_kind_does_not_spoil_the_others(
    three: RedlockNodes, colour: str
) -> None:
    for at, node in enumerate(three.nodes):
        held(node, 3)
        if at > 0:
            node.ask("SET", "locknut:{strange}:redlock", "somebody else's")
        else:  # alone it cannot say that nobody has it
            node.ask("EVAL", WAITING, 0, "locknut:{strange}:redlock", 2, 4_000_000_000_000, SHOWN)
            node.ask("DEL", "locknut:{job 2}:redlock:info")
            node.ask("SET", "locknut:{job 2}:redlock:info", "overwritten")

    async def listing(locks: Any) -> list[LockInfo]:
        found: list[LockInfo] = await locks.list()
        return found

    found = told(three, colour, listing)
    assert [each.name for each in found] == ["job 1", "job 2", "job 3"]
    assert [vote.agrees for vote in found[1].details] == [False, True, True]
    assert "cannot be read" in found[1].details[0].problem


def test_a_majority_of_each_lock_is_wanted(five: RedlockNodes, colour: str) -> None:
    """One node is down, and some of the others know only some of the locks."""
    for at, node in enumerate(five.nodes):
        held(node, 1 + at)  # the last one alone knows job 5, three of them know job 3

    async def listing(locks: Any) -> tuple[list[LockInfo], list[LockInfo]]:
        well = await locks.list()
        five.nodes[4].kill()
        ill = await locks.list()
        five.nodes[4].start()
        return well, ill

    well, ill = told(five, colour, listing)
    assert [each.name for each in well] == ["job 1", "job 2", "job 3"]
    assert [each.name for each in ill] == ["job 1", "job 2"]
    assert all(each.details[4].problem and not each.details[4].agrees for each in ill)


def test_a_node_that_stops_meanwhile_is_waited_for_once(three: RedlockNodes, colour: str) -> None:
    """Else every question would wait for it until its time is over."""
    for node in three.nodes:
        held(node)

    async def listing(locks: Any) -> tuple[list[LockInfo], list[set[int]]]:
        await locks.list()
        backend = locks._client.backend
        rounds: list[set[int]] = []
        ask = backend._views

        async def noted(words: Any, nodes: Any = None) -> Any:
            if len(rounds) == 1:
                three.nodes[1].stop()
            views = await ask(words, nodes)
            rounds.append(set(views.asked))
            return views

        backend._views = noted
        found = await locks.list()
        three.nodes[1].cont()
        return found, rounds

    found, rounds = told(three, colour, listing)
    assert len(found) == MANY
    assert rounds == [{0, 1, 2}, {0, 1, 2}, {0, 2}]
    silent = [each for each in found if each.details[1].problem == "no answer"]
    assert len(silent) == MANY - majority_view.BATCH
    assert all(each.locked and each.details[0].agrees for each in found)


def test_a_list_looks_only_at_what_is_in_use(three: RedlockNodes, colour: str) -> None:
    """Numbers are remembered for a day: whoever lists a set that is used a lot would wait long."""
    paint = COLOURS[colour]()

    async def body() -> tuple[list[str], int]:
        engine = open_engine(three.url)[0]
        ours: Any = paint.locks(engine, Settings("ours"))
        theirs: Any = paint.locks(engine, Settings("theirs"))
        for each in range(20):
            async with ours.lock(f"used {each}"), theirs.lock(f"used {each}"):
                pass
        async with theirs.lock("held"), ours.lock("b"), ours.lock("a"):
            before = calls(three.nodes[0], "zrange")  # one or two for each lock that is looked at
            listed = [info.name for info in await ours.list()]
            asked = calls(three.nodes[0], "zrange") - before
        await ours.close()
        await theirs.close()
        return listed, asked

    listed, asked = paint.run(body())
    assert listed == ["a", "b"]
    assert 2 <= asked < 20, "a vote or two may have come late"


def test_numbers_that_are_remembered_are_not_even_sent(three: RedlockNodes, colour: str) -> None:
    """There may be very many: they are looked through by the nodes alone."""
    remember = (
        "for at = 1, 5000 do redis.call('set', 'locknut:{' .. at .. '}:redlock:fence', 1) end"
    )
    for node in three.nodes:
        node.ask("EVAL", remember, 0)

    async def listing(locks: Any) -> int:
        assert await locks.list() == []
        before = sent(three.nodes[0])
        assert await locks.list() == []
        return sent(three.nodes[0]) - before

    assert told(three, colour, listing) < 50_000


def sent(node: RedisServer) -> int:
    return int(node.info("stats")["total_net_output_bytes"])
