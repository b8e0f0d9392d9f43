"""Whether the settings and the state of one Redis server are good for locks. Pure: facts in,
findings out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from locknut.core.durations import spell
from locknut.core.findings import fail, judged, ok, warn
from locknut.core.values import Finding
from locknut.drivers.redis.server_facts import ServerFacts

_OLDEST: Final = (6, 2)
_FULL, _NEARLY_FULL = 1.0, 0.9
_CROWDED: Final = 0.8
_IDLE: Final = 60
"""Seconds. Connections of ours are idle for a third of the ttl between two renewals."""
_SMALL_BUFFER: Final = 1024 * 1024
"""Bytes. A burst of grants to the tasks of one loop is far below this."""


def examined(facts: ServerFacts, wait_replicas: int = 0) -> list[Finding]:
    """Everything that one server's own words tell."""
    judges = {**JUDGES, "redis-replicas": lambda known: _replicas(known, wait_replicas)}
    return [judged(code, lambda judge=judge: judge(facts)) for code, judge in judges.items()]  # type: ignore[misc]  # mypy sees no default


def _version(facts: ServerFacts) -> Finding:
    said = facts.info("redis_version")
    if tuple(map(int, said.split(".")[:2])) < _OLDEST:
        advice = "Use Redis 6.2 or newer, or Valkey: our tests run against those."
        return fail("redis-version", f"The server says that it is Redis {said}.", advice)
    own = facts.info("valkey_version") if facts.says("valkey_version") else ""
    return ok("redis-version", f"The server is {f'Valkey {own}' if own else f'Redis {said}'}.")


def _eviction(facts: ServerFacts) -> Finding:
    code, policy = "redis-eviction", facts.info("maxmemory_policy")
    evicted = facts.number("evicted_keys") if facts.says("evicted_keys") else 0
    already = f" It has evicted {evicted} keys since it was started." if evicted else ""
    if policy == "noeviction":
        return ok(code, f"The server never evicts a key (maxmemory-policy noeviction).{already}")
    advice = "Set maxmemory-policy to noeviction, or give the locks a server of their own."
    if facts.number("maxmemory") == 0:
        found = (
            f"The server would evict keys (maxmemory-policy {policy}) if somebody limited its "
            f"memory (maxmemory is 0 now).{already}"
        )
        return warn(code, found, advice)
    found = (
        f"When its memory is full the server evicts keys, held locks among them "
        f"(maxmemory-policy {policy}).{already}"
    )
    return fail(code, found, advice)


def _memory(facts: ServerFacts) -> Finding:
    code, most = "redis-memory", facts.number("maxmemory")
    if most == 0:
        return ok(code, "The memory of the server has no limit of its own (maxmemory 0).")
    used = facts.number("used_memory") / most
    found = f"The server uses {used:.0%} of its memory (maxmemory)."
    advice = (
        "Raise maxmemory or remove data: a full server renews and releases, but grants nothing."
    )
    if used >= _FULL:
        return fail(code, found, advice)
    return warn(code, found, advice) if used >= _NEARLY_FULL else ok(code, found)


def _persistence(facts: ServerFacts) -> Finding:
    code = "redis-persistence"
    if facts.info("aof_enabled") == "1":
        return _with_log(facts)
    if facts.info("rdb_last_bgsave_status") != "ok":
        found = "The server could not write its last snapshot."
        advice = "See the log of the server, and make room on its disk."
        stops = facts.setting("stop-writes-on-bgsave-error") == "yes"
        return (
            fail(code, f"{found[:-1]}, and refuses to write until it can.", advice)
            if stops
            else warn(code, found, advice)
        )
    advice = "Set appendonly to yes (appendfsync everysec is enough unless the machine crashes)."
    if facts.setting("save"):
        found = (
            "The server writes snapshots only: a restart forgets the locks that were taken since "
            "the last one, and brings back those that were released since then."
        )
        return warn(code, found, advice)
    found = "The server saves nothing: a restart forgets every lock, and two may hold one."
    if facts.number("connected_slaves"):
        found += " Its replicas then forget them too."
    return warn(code, found, advice)


def _with_log(facts: ServerFacts) -> Finding:
    code = "redis-persistence"
    if facts.says("aof_last_write_status") and facts.info("aof_last_write_status") != "ok":
        found = "The server cannot write its log (appendonly), and refuses to write until it can."
        return fail(code, found, "See the log of the server, and make room on its disk.")
    synced = facts.setting("appendfsync")
    if synced == "no":
        found = (
            "The log of the server is written out when the system pleases (appendfsync no): a "
            "crash of the machine forgets the locks of up to half a minute."
        )
        return warn(code, found, "Set appendfsync to everysec or always.")
    lost = {"everysec": "a crash of the machine forgets the last second, a restart nothing"}
    what = lost.get(synced, "nothing is lost")
    return ok(code, f"The server keeps a log of all changes (appendfsync {synced}): {what}.")


def _replicas(facts: ServerFacts, wait_replicas: int) -> Finding:
    code, known = "redis-replicas", facts.replicas()
    good = [each for each in known if each.get("state") == "online"]
    if len(good) < wait_replicas:
        found = f"The URL wants {wait_replicas} replicas to confirm, but {len(good)} are there."
        return fail(code, found, "Start replicas, or ask for fewer: no lock is granted like this.")
    if len(good) < len(known):
        found = (
            f"{len(known) - len(good)} of {len(known)} replicas are not in step with the server."
        )
        return warn(code, found, "Wait until they are, or see their logs: they cannot take over.")
    if not known:
        return ok(code, "The server has no replicas: nothing fails over.")
    if wait_replicas:
        found = f"{len(good)} replicas follow the server, and {wait_replicas} confirm every grant."
        return ok(code, found)
    needed = int(facts.setting("min-replicas-to-write"))
    if needed:
        found = f"The server stops writing when fewer than {needed} replicas follow it."
        return ok(code, found)
    found = (
        f"{len(good)} replicas follow the server, and grants do not wait for them: a failover "
        "forgets the newest, and a master that is cut off goes on granting."
    )
    advice = "Set min-replicas-to-write to 1 or more, or add wait_replicas=1 to the URL."
    return warn(code, found, advice)


def _idle_timeout(facts: ServerFacts) -> Finding:
    code, seconds = "redis-idle-timeout", int(facts.setting("timeout"))
    if seconds == 0:
        return ok(code, "The server does not hang up on idle clients (timeout 0).")
    found = f"The server hangs up on clients that are idle for {spell(seconds)} (timeout)."
    if seconds < _IDLE:
        advice = (
            f"Set timeout to 0 or to {_IDLE} and more: each time, all holds are renewed at once."
        )
        return warn(code, found, advice)
    return ok(code, found)


def _keepalive(facts: ServerFacts) -> Finding:
    code, seconds = "redis-keepalive", int(facts.setting("tcp-keepalive"))
    if seconds == 0:
        found = "The server never notices that a client vanished without a word (tcp-keepalive 0)."
        return warn(code, found, "Set tcp-keepalive to 300 or less.")
    return ok(code, f"The server looks after silent clients every {spell(seconds)}.")


def _output_buffer(facts: ServerFacts) -> Finding:
    code, words = "redis-output-buffer", facts.setting("client-output-buffer-limit").split()
    hard, soft, _seconds = map(int, words[words.index("pubsub") + 1 :][:3])
    limits = [limit for limit in (hard, soft) if limit]
    if limits and min(limits) < _SMALL_BUFFER:
        found = (
            f"The server hangs up on a client on a loop that is {min(limits)} bytes behind "
            "(client-output-buffer-limit pubsub)."
        )
        return warn(code, found, "Allow 1mb or more; 32mb 8mb 60 is the default of Redis.")
    return ok(code, "The buffers for clients on a loop are large enough.")


def _clients(facts: ServerFacts) -> Finding:
    code = "redis-clients"
    known = facts.info("maxclients") if facts.says("maxclients") else facts.setting("maxclients")
    used, most = facts.number("connected_clients"), int(known)
    found = f"{used} of {most} clients that the server allows are connected (maxclients)."
    if used >= most * _CROWDED:
        return warn(code, found, "Raise maxclients: a client beyond it cannot even renew.")
    return ok(code, found)


JUDGES: Final[dict[str, Callable[[ServerFacts], Finding]]] = {
    "redis-version": _version,
    "redis-eviction": _eviction,
    "redis-memory": _memory,
    "redis-persistence": _persistence,
    "redis-idle-timeout": _idle_timeout,
    "redis-keepalive": _keepalive,
    "redis-output-buffer": _output_buffer,
    "redis-clients": _clients,
}
CODES: Final = (*JUDGES, "redis-replicas")
