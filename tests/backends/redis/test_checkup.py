"""What `doctor` finds at a Redis: each check beside a server that is set up just so."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import locknut
from locknut.backends.redis import server_health
from locknut.core.findings import NotKnown
from locknut.drivers.redis import server_facts
from locknut.errors import BackendError
from locknut.testing import FaultProxy
from tests.backends.redis.permissions import documented
from tests.checkups import FAIL, OK, UNKNOWN, WARN, examine
from tests.servers.processes import until
from tests.servers.redis import RedisServer
from tests.servers.rewriting import Rewriting

pytestmark = pytest.mark.redis
both_colours = pytest.mark.parametrize("colour", ["blocking", "asyncio"])


@pytest.fixture(scope="module")
def own() -> Iterator[RedisServer]:
    """Set as it should be; a test that sets it otherwise sets it back."""
    with RedisServer(durable=True) as server:
        server.ask("CONFIG", "SET", "appendfsync", "everysec")
        yield server


@contextmanager
def set_to(server: RedisServer, **settings: Any) -> Iterator[None]:
    """With these settings for a while."""
    names = {name: name.replace("_", "-") for name in settings}
    before: dict[str, Any] = {}
    for name in names.values():
        told = server.ask("CONFIG", "GET", name)
        assert isinstance(told, list)
        before[name] = told[1]
    try:
        for name, value in settings.items():
            server.ask("CONFIG", "SET", names[name], value)
        yield
    finally:
        for name, value in before.items():
            server.ask("CONFIG", "SET", name, value)


@both_colours
def test_a_server_as_it_should_be(own: RedisServer, colour: str) -> None:
    before = own.ask("DBSIZE")
    found = examine(own.url, colour)
    assert {each.severity for each in found.values()} == {OK}, found
    assert len(found) == 14
    assert "keeps a log" in found["redis-persistence"].found
    left = own.ask("KEYS", "*doctor*")
    assert left == []
    assert isinstance(before, int)


@both_colours
@pytest.mark.parametrize(
    ("settings", "code", "severity", "word"),
    [
        (
            {"maxmemory": "1gb", "maxmemory_policy": "volatile-ttl"},
            "redis-eviction", FAIL, "held locks among them",
        ),
        ({"maxmemory_policy": "allkeys-lru"}, "redis-eviction", WARN, "allkeys-lru"),
        ({"appendonly": "no"}, "redis-persistence", WARN, "saves nothing"),
        ({"appendonly": "no", "save": "900 1"}, "redis-persistence", WARN, "snapshots"),
        ({"appendfsync": "no"}, "redis-persistence", WARN, "half a minute"),
        ({"appendfsync": "always"}, "redis-persistence", OK, "nothing is lost"),
        ({"timeout": 20}, "redis-idle-timeout", WARN, "20 s"),
        ({"timeout": 3600}, "redis-idle-timeout", OK, "60 min"),
        ({"tcp_keepalive": 0}, "redis-keepalive", WARN, "never notices"),
        (
            {"client_output_buffer_limit": "pubsub 4096 1024 60"},
            "redis-output-buffer", WARN, "1024 bytes",
        ),
    ],
)  # fmt: skip
def test_a_setting_that_is_wrong(
    own: RedisServer, colour: str, settings: dict[str, Any], code: str, severity: str, word: str
) -> None:
    with set_to(own, **settings):
        found = examine(own.url, colour)
    finding = found.pop(code)
    assert finding.severity == severity
    assert word in finding.found
    assert {each.severity for each in found.values()} == {OK}, found


def test_what_a_setting_is_said_to_do(own: RedisServer) -> None:
    with set_to(own, maxmemory="1gb", maxmemory_policy="allkeys-lru"):
        finding = examine(own.url)["redis-eviction"]
    assert "held locks among them (maxmemory-policy allkeys-lru)" in finding.found
    assert "noeviction" in finding.advice


@pytest.mark.parametrize(("share", "severity"), [(0.95, WARN), (1.5, FAIL)])
def test_a_memory_that_is_nearly_full(own: RedisServer, share: float, severity: str) -> None:
    own.ask("SETRANGE", "filler", 8_000_000, "x")  # beside it our own connections do not count
    used = int(own.info("memory")["used_memory"])
    try:
        with locknut.connect(own.url) as locks, set_to(own, maxmemory=int(used / share)):
            found = examine(own.url)
            if severity == FAIL:
                with pytest.raises(BackendError, match="out of memory"):
                    locks.lock("x").acquire(timeout=0)
    finally:
        own.ask("DEL", "filler")
    assert found["redis-memory"].severity == severity
    assert f"{share:.0%}"[:2] in found["redis-memory"].found


def test_clients_near_the_limit(own: RedisServer) -> None:
    with set_to(own, maxclients=11):
        others = [own.connect() for _ in range(8)]
        try:
            found = examine(own.url)["redis-clients"]
        finally:
            for each in others:
                each.close()
    assert found.severity is WARN
    assert "of 11 clients" in found.found


def test_a_snapshot_that_cannot_be_written() -> None:
    with RedisServer(more={"dbfilename": "taken.rdb"}) as server:
        (server.folder / "taken.rdb").mkdir()  # a file cannot be put in its place
        server.ask("SET", "some", "data")
        server.ask("BGSAVE")
        until(lambda: server.info("persistence")["rdb_last_bgsave_status"] == "err", "it fails")
        server.ask("CONFIG", "SET", "save", "900 1000000")
        found = examine(server.url)
        assert found["redis-persistence"].severity is FAIL
        assert found["reachable"].severity is FAIL, "MISCONF: it refuses to write for now"
        server.ask("CONFIG", "SET", "stop-writes-on-bgsave-error", "no")
        found = examine(server.url)
        assert found["redis-persistence"].severity is WARN
        assert found["usable"].severity is OK


@both_colours
def test_replicas(own: RedisServer, colour: str) -> None:
    confirmed = f"{own.url}?wait_replicas=1"
    assert examine(own.url, colour)["redis-replicas"].severity is OK
    lonely = examine(confirmed, colour)
    assert lonely["redis-replicas"].severity is FAIL
    assert lonely["reachable"].severity is FAIL
    with RedisServer() as replica:
        replica.ask("REPLICAOF", own.host, own.port)
        own.wait_for_replicas(1)
        assert examine(own.url, colour)["redis-replicas"].severity is WARN
        assert examine(confirmed, colour)["redis-replicas"].severity is OK
        with set_to(own, min_replicas_to_write=1):
            assert examine(own.url, colour)["redis-replicas"].severity is OK
        with set_to(own, appendonly="no"):
            assert "replicas" in examine(own.url, colour)["redis-persistence"].found
    until(lambda: own.info("replication")["connected_slaves"] == "0", "the replica is gone")


def test_a_replica_that_is_not_in_step(own: RedisServer) -> None:
    """It asked for everything, and the server has not begun."""
    waits = set_to(own, repl_diskless_sync="yes", repl_diskless_sync_delay=3600)
    with waits, own.connect() as replica:
        replica.ask("REPLCONF", "capa", "eof")  # or the server begins at once, with a file
        replica.send("PSYNC", "?", "-1")
        until(lambda: own.info("replication")["connected_slaves"] == "1", "it is known")
        found = examine(own.url)["redis-replicas"]
    assert found.severity is WARN
    assert "1 of 1 replicas are not in step" in found.found
    until(lambda: own.info("replication")["connected_slaves"] == "0", "it is gone")


def test_a_server_that_is_a_replica() -> None:
    with RedisServer() as master, RedisServer() as replica:
        replica.ask("REPLICAOF", master.host, master.port)
        found = examine(replica.url)
    assert found["usable"].severity is FAIL
    assert "read-only replica" in found["usable"].found
    assert found["redis-eviction"].severity is UNKNOWN


@pytest.mark.parametrize("severity", [OK, FAIL])
def test_the_version(own: RedisServer, severity: str) -> None:
    version = own.info()["redis_version"].encode()
    told = version if severity == OK else b"6.0" + version[3:]
    old, new = b"redis_version:" + version, b"redis_version:" + told
    with Rewriting((own.host, own.port), old, new) as proxy:
        found = examine(own.url_through(proxy.port))["redis-version"]
    assert found.severity == severity
    assert told.decode() in found.found


def test_valkey_is_called_by_its_name(valkey_server: RedisServer) -> None:
    finding = examine(valkey_server.url)["redis-version"]
    assert (finding.severity, "Valkey" in finding.found) == (OK, True)


def test_the_oldest_that_is_supported(redis6_server: RedisServer) -> None:
    found = examine(redis6_server.url)
    assert found["redis-version"].severity is OK
    assert {each.code for each in found.values() if each.severity is UNKNOWN} == set()


@pytest.mark.parametrize(("ahead", "severity"), [(0, OK), (5, WARN), (-3600, WARN)])
def test_the_clock(ahead: float, severity: str, clocked: RedisServer) -> None:
    clocked.set_clock(ahead)
    try:
        found = examine(clocked.url)["clock"]
    finally:
        clocked.set_clock(0)
    assert found.severity == severity
    assert ("ahead of" in found.found) == (ahead > 0)
    assert ("behind" in found.found) == (ahead < 0)


@pytest.fixture(scope="module")
def clocked() -> Iterator[RedisServer]:
    with RedisServer(flavour="valkey", clock=True) as server:
        yield server


@pytest.fixture(scope="module")
def guarded() -> Iterator[RedisServer]:
    """A user with just the rights of the documentation."""
    with RedisServer(user="locks", password="secret", rules=documented()) as server:
        yield server


@both_colours
def test_least_privilege_is_enough_and_what_may_not_be_asked_is_unknown(
    guarded: RedisServer, colour: str
) -> None:
    found = examine(guarded.url, colour)
    assert found["redis-rights"].severity is OK, found["redis-rights"]
    unknown = {code for code, each in found.items() if each.severity is UNKNOWN}
    assert unknown == {
        "redis-persistence", "redis-idle-timeout", "redis-keepalive", "redis-output-buffer"
    }  # fmt: skip
    assert "settings" in found["redis-keepalive"].found
    assert "secret" not in str(found)


@pytest.mark.parametrize(
    ("denied", "severity"),
    [
        ("blpop", WARN), ("rpush", WARN), ("scan", WARN), ("publish", WARN), ("subscribe", WARN),
        ("zadd", FAIL), ("hset", FAIL), ("type", FAIL),
    ],
)  # fmt: skip
def test_a_right_that_is_missing(guarded: RedisServer, denied: str, severity: str) -> None:
    guarded.ask("ACL", "SETUSER", "locks", f"-{denied}")
    try:
        finding = examine(guarded.url)["redis-rights"]
    finally:
        guarded.ask("ACL", "SETUSER", "locks", f"+{denied}")
    assert finding.severity == severity
    assert denied.upper() in finding.found
    assert f"+{denied}" in finding.advice


def test_without_info_its_facts_are_unknown(guarded: RedisServer) -> None:
    guarded.ask("ACL", "SETUSER", "locks", "-info")
    try:
        found = examine(guarded.url)
    finally:
        guarded.ask("ACL", "SETUSER", "locks", "+info")
    assert found["usable"].severity is OK
    assert found["redis-eviction"].severity is found["redis-version"].severity is UNKNOWN
    assert "INFO" in found["redis-eviction"].found


def test_a_namespace_that_is_not_allowed(guarded: RedisServer) -> None:
    found = examine(f"{guarded.url}?namespace=jobs")
    assert found["usable"].severity is FAIL
    assert found["redis-rights"].severity is FAIL


def test_a_command_that_was_renamed() -> None:
    with RedisServer(more={"rename-command": "BLPOP hidden"}) as server:
        finding = examine(server.url)["redis-rights"]
    assert finding.severity is WARN
    assert "rename-command" in finding.advice


def test_in_the_layout_of_others_only_the_server_is_looked_at(own: RedisServer) -> None:
    found = examine(f"{own.url}?layout=redisson")
    assert "redis-rights" not in found
    assert found["redis-eviction"].severity is OK


@both_colours
@pytest.mark.faults
@pytest.mark.slow
def test_it_is_done_in_time_at_a_server_that_hangs(own: RedisServer, colour: str) -> None:
    own.stop()
    try:
        began = time.monotonic()
        found = examine(own.url, colour, timeout=1.0)
        took = time.monotonic() - began
    finally:
        own.cont()
    assert found["reachable"].severity is FAIL
    assert {each.severity for each in found.values()} == {FAIL, UNKNOWN}
    assert took < 20


@pytest.mark.faults
def test_a_slow_network_is_too_slow_for_a_short_ttl(own: RedisServer) -> None:
    with FaultProxy((own.host, own.port)) as proxy:
        proxy.replies.delay(0.05)
        finding = examine(own.url_through(proxy.port), ttl=0.3)["round-trip"]
    assert finding.severity is FAIL
    assert "300 ms" in finding.found


@pytest.mark.faults
@both_colours
def test_an_answer_that_gets_lost_costs_one_check(own: RedisServer, colour: str) -> None:
    with Rewriting((own.host, own.port), b"client-output-buffer-limit", None) as proxy:
        found = examine(own.url_through(proxy.port), colour)
    lost = {code for code, each in found.items() if each.severity is UNKNOWN}
    assert lost == {*server_health.CODES}
    assert {each.severity for code, each in found.items() if code not in lost} == {OK}


def test_one_fact_that_makes_no_sense_hides_no_other() -> None:
    """As of a server that is compatible in its own way: all of them were unknown then."""
    info = b"redis_version:7.2.0\r\nmaxmemory_policy:allkeys-lru\r\nmaxmemory:1\r\n"
    settings = [[name.encode(), b"off"] for name in server_facts.SETTINGS]
    known = server_facts.ServerFacts([info, *settings], NotKnown)
    found = {each.code: each.severity for each in server_health.examined(known)}
    assert found["redis-eviction"] is FAIL
    assert found["redis-idle-timeout"] is UNKNOWN
    assert set(found) == set(server_health.CODES)
