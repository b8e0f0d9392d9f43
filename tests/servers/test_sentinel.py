"""The replicated servers: Sentinels find everybody, a failover ends with one master, all go."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers.processes import exists
from tests.servers.resp import Refused
from tests.servers.sentinel import SentinelService

pytestmark = pytest.mark.redis


@pytest.fixture(scope="module", params=["redis", "valkey"])
def service(request: pytest.FixtureRequest) -> Iterator[SentinelService]:
    running = SentinelService(flavour=request.param)
    with running:
        pids = [one.pid for one in (*running.servers, *running.sentinels)]
        yield running
        pids += [one.pid for one in running.servers]
    assert not any(exists(pid) for pid in pids)


def test_what_the_master_writes_the_replicas_have(service: SentinelService) -> None:
    assert service.url.startswith("redis+sentinel://127.0.0.1:")
    assert service.url.endswith("/mymaster")
    assert len(service.replicas) == 2
    with service.master.connect() as wire:
        wire.ask("SET", "a", "1")
        assert wire.ask("WAIT", 2, 30_000) == 2
    for replica in service.replicas:
        assert replica.ask("GET", "a") == b"1"
        with pytest.raises(Refused, match="READONLY"):
            replica.ask("SET", "a", "2")


@pytest.mark.slow
def test_a_forced_failover(service: SentinelService) -> None:
    old = service.master
    new = service.failover()
    assert new is not old
    assert service.master is new
    assert new.ask("SET", "b", "1") == b"OK"
    assert old.info("replication")["role"] == "slave"


@pytest.mark.slow
def test_a_killed_master_is_replaced_and_comes_back_as_a_replica(service: SentinelService) -> None:
    old = service.master
    old.kill()
    new = service.wait_for_another(old)
    assert new.ask("SET", "c", "1") == b"OK"
    service.wait_until_whole()
    # Sentinels that a busy machine kept waiting may have chosen once more meanwhile.
    roles = [server.info("replication")["role"] for server in (service.master, *service.replicas)]
    assert roles == ["master", "slave", "slave"]


@pytest.mark.slow
def test_a_stopped_master_is_replaced_and_wakes_as_a_second_one(service: SentinelService) -> None:
    """The ready-made split brain: the old one does not know yet, and takes writes."""
    old = service.master
    old.stop()
    new = service.wait_for_another(old)
    with old.connect() as wire:
        wire.send("SET", "d", "of the old")
        new.ask("SET", "d", "of the new")
        old.cont()
        assert wire.read() == b"OK"
    assert new.ask("GET", "d") == b"of the new"
    service.wait_until_whole()
    assert old.ask("GET", "d") == b"of the new"
