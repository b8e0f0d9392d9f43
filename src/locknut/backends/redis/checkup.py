"""What is looked at to see whether locks are safe at a Redis: the server, our rights there, the
Sentinels that watch it, the cluster it belongs to.

All of it is asked by the blocking colour, and reads; only the trial of our rights writes, to a key
of its own that is gone at once.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from locknut.backends.redis import cluster_health, lock_keys, sentinel_health, server_health
from locknut.backends.redis.inboxes import Connections
from locknut.core import findings, pinging
from locknut.core.findings import Check, NotKnown
from locknut.core.values import Finding
from locknut.drivers.redis import server_facts, wire
from locknut.drivers.redis.cluster.node_pools import NodePools
from locknut.drivers.redis.pools import Pool
from locknut.drivers.redis.sentinel import Sentinels
from locknut.drivers.redis.server_facts import ServerFacts, refusal

_FORBIDDEN: Final = ("NOPERM", "no permissions", "unknown command", "ACL failure")
_FOR_WAITING: Final = "threads that wait for a lock"
_FOR_LOOPS: Final = "clients on a loop, and for force_release"
_FOR_LISTS: Final = "locks.list() and locknut ls"
_FOR_EVERY: Final = "every lock"

Masters = dict[str, Pool]


def checks(pool: Connections, prefix: str | None) -> list[Check]:
    """What can be looked at behind this pool. `prefix` is None where our own layout is not used:
    what the others need is not known here.
    """
    if isinstance(pool, NodePools):
        return [
            *_of_masters(lambda: _by_place(pool)),
            cluster_health.check(lambda: _by_place(pool)),
            _of_rights(lambda: pool.masters()[0], prefix or ""),
        ]
    if not isinstance(pool, Pool):
        return []
    found = _of_masters(lambda: {pool.settings.place: pool})
    if prefix is not None:
        found.append(_of_rights(lambda: pool, prefix))
    if isinstance(pool.endpoint, Sentinels):
        found.append(sentinel_health.check(pool.endpoint))
    return found


def _by_place(pools: NodePools) -> Masters:
    return {pool.settings.place: pool for pool in pools.masters()}


def _of_masters(masters: Callable[[], Masters]) -> list[Check]:
    async def clocks() -> list[Finding]:
        return findings.merged({place: [_clock(pool)] for place, pool in masters().items()})

    async def facts() -> list[Finding]:
        return findings.merged(
            {
                place: server_health.examined(facts_of(pool), pool.settings.replicas)
                for place, pool in masters().items()
            }
        )

    return [Check(("clock",), clocks), Check(server_health.CODES, facts)]


def facts_of(pool: Pool) -> ServerFacts:
    return ServerFacts(pool.send_many(server_facts.QUESTIONS), NotKnown)


def _clock(pool: Pool) -> Finding:
    sent = time.time()
    (reply,) = pool.send_many([server_facts.CLOCK])
    received = time.time()
    if refused := refusal(reply):
        return findings.unknown("clock", f"The server does not tell its time: {refused}.")
    return findings.clock(int(reply[0]) + int(reply[1]) / 1e6, sent, received)


def _of_rights(pool: Callable[[], Pool], prefix: str) -> Check:
    async def rights() -> Iterable[Finding]:
        tried = _trials(prefix)
        replies = pool().ask_apart([wire.pack(*words) for words, _ in tried])
        return [_rights([(words[0], use) for words, use in tried], replies)]

    return Check(("redis-rights",), rights)


def _trials(prefix: str) -> list[tuple[tuple[bytes, ...], str]]:
    """Every command that a lock needs, in a form that changes nothing where there is no such key,
    or that undoes itself; the last one leaves the connection unusable.
    """
    mark = os.urandom(8).hex().encode()
    key = b"%b:doctor:%b" % (lock_keys.hold_key(prefix + pinging.NAME, permits=False), mark)
    one, none = b"1", b"0"
    changes_nothing = (
        (b"EXISTS", key), (b"GET", key), (b"GETRANGE", key, none, none), (b"HGET", key, one),
        (b"HDEL", key, one), (b"PEXPIREAT", key, one), (b"PTTL", key), (b"TIME",), (b"TYPE", key),
        (b"SET", key, one, b"XX", b"PX", one), (b"ZADD", key, b"XX", one, one), (b"ZCARD", key),
        (b"ZRANGE", key, none, none), (b"ZRANGEBYSCORE", key, none, none), (b"ZRANK", key, one),
        (b"ZREM", key, one), (b"ZSCORE", key, one), (b"DEL", key),
    )  # fmt: skip
    in_the_end = (b"PEXPIRE", key, b"1000")
    return [
        *((words, _FOR_EVERY) for words in changes_nothing),
        ((b"HSET", key, one, one), _FOR_EVERY),
        (in_the_end, _FOR_EVERY),
        ((b"DEL", key), _FOR_EVERY),
        ((b"RPUSH", key, one), _FOR_WAITING),
        (in_the_end, _FOR_EVERY),
        ((b"BLPOP", key, b"0.01"), _FOR_WAITING),
        ((b"SCAN", none, b"MATCH", key, b"COUNT", one), _FOR_LISTS),
        ((b"PUBLISH", b"locknut:doctor:" + mark, b""), _FOR_LOOPS),
        ((b"SUBSCRIBE", b"locknut:doctor:" + mark), _FOR_LOOPS),
    ]


def _rights(tried: Sequence[tuple[bytes, str]], replies: Sequence[Any]) -> Finding:
    code = "redis-rights"
    missing: dict[str, list[str]] = {}
    renamed = False
    for (word, use), reply in zip(tried, replies, strict=True):
        if any(each in refusal(reply) for each in _FORBIDDEN):
            missing.setdefault(use, []).append(word.decode())
            renamed |= "unknown command" in refusal(reply)
    if not missing:
        return findings.ok(code, "Every command that a lock needs is allowed.")
    said = "; ".join(
        f"{', '.join(dict.fromkeys(words))} is needed for {use}" for use, words in missing.items()
    )
    words = dict.fromkeys(word.lower() for several in missing.values() for word in several)
    found = f"The server does not allow all commands: {said}."
    advice = f"Allow them (ACL: {' '.join(f'+{word}' for word in words)})."
    if renamed:
        advice = f"{advice[:-1]}, and undo any rename-command of the server."
    judge = findings.fail if _FOR_EVERY in missing else findings.warn
    return judge(code, found, advice)
