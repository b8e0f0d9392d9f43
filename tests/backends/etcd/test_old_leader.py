"""A leader that the majority has left answers keep-alives alone, and does not know it for a while.

A client that believes it would hold what another client holds too. `naive` here is what most
clients of etcd do: the answer to a keep-alive is all they look at.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace

import pytest

import locknut
from locknut import aio
from locknut.backends.etcd.backend import EtcdBackend
from locknut.backends.etcd.settings import from_url
from locknut.backends.etcd.shared_lease import SharedLease
from locknut.core.values import Granted, State
from locknut.drivers.etcd.members import Members
from locknut.drivers.etcd.requests import Range
from locknut.drivers.etcd.settings import Settings
from locknut.drivers.etcd.sync import BlockingLink
from locknut.runtimes.threads import ThreadRuntime, run
from locknut.urls import parse
from tests.backends.etcd.conftest import PATIENCE, claim, root
from tests.servers.etcd import EtcdCluster, EtcdServer
from tests.servers.processes import until

pytestmark = [pytest.mark.etcd, pytest.mark.faults, pytest.mark.slow]

SESSION = 3
BELIEVES = 20_000
"""Milliseconds for which the old leader goes on alone: the new one ends leases before that."""


class Deserted:
    """A cluster whose first member leads, and will not notice that the others have left it."""

    def __init__(self) -> None:
        self.cluster = EtcdCluster()
        self.old, *self.others = self.cluster.servers
        self.old.election = BELIEVES
        self.cluster.start()
        self.cluster.make_leader(self.old)
        self.rest = f"etcd://{','.join(server.address for server in self.others)}"

    def desert(self) -> None:
        self.cluster.cut_off(self.old)
        until(lambda: any(other.leads for other in self.others), "a new leader")
        assert self.old.leads, "the scenario is the one"

    def close(self) -> None:
        self.cluster.close()


@pytest.fixture
def deserted() -> Iterator[Deserted]:
    made = Deserted()
    yield made
    made.close()


class Naive:
    """A lease that is kept alive by its leader's word."""

    def __init__(self, server: EtcdServer) -> None:
        settings = Settings(((server.host, server.port),))
        self._link = BlockingLink(settings, Members(settings))
        self.lease = run(self._link.grant(SESSION)).id

    def keep_alive(self) -> int:
        return run(self._link.keep_alive(self.lease)).ttl

    def close(self) -> None:
        run(self._link.close())


def test_nobody_holds_twice(deserted: Deserted, path: str) -> None:
    url = f"{deserted.old.url}/{path}?session_ttl={SESSION}"
    naive = Naive(deserted.old)
    with (
        locknut.connect(url) as ours,
        locknut.connect(f"{deserted.rest}/{path}") as others,
    ):
        lease = ours.lock("x").acquire()
        assert lease is not None
        assert others.lock("x").acquire(timeout=0) is None
        deserted.desert()
        with others.lock("x", timeout=PATIENCE) as next_one:
            assert lease.state is State.LOST
            assert next_one.fence > lease.fence
            assert deserted.old.leads
            assert naive.keep_alive() > 0, "it vouches for a lease that is over"
            assert f"{naive.lease:x}" not in deserted.others[0].etcdctl("lease", "list")
        deserted.cluster.heal()
    naive.close()


def test_the_same_on_a_loop(deserted: Deserted, path: str) -> None:
    async def story() -> None:
        url = f"{deserted.old.url}/{path}?session_ttl={SESSION}"
        async with (
            aio.connect(url) as ours,
            aio.connect(f"{deserted.rest}/{path}") as others,
        ):
            lease = await ours.lock("x").acquire()
            assert lease is not None
            assert await others.lock("x").acquire(timeout=0) is None
            await asyncio.to_thread(deserted.desert)
            async with others.lock("x", timeout=PATIENCE):
                assert lease.state is State.LOST
            assert deserted.old.leads
            deserted.cluster.heal()

    asyncio.run(story())


def test_who_knows_the_others_too_goes_on_holding(deserted: Deserted, path: str) -> None:
    """The old leader's word proves nothing, but the next member's does."""
    everybody = ",".join(server.address for server in deserted.cluster.servers)
    url = f"etcd://{everybody}/{path}?session_ttl=12&socket_timeout=0.5s"
    with locknut.connect(url) as ours, locknut.connect(f"{deserted.rest}/{path}") as others:
        with ours.lock("x") as lease:
            deserted.desert()
            for _ in range(3):
                until(lambda: _renewed(lease), "it is confirmed by the others")
            assert lease.held
            assert others.lock("x").acquire(timeout=0) is None
        with others.lock("x", timeout=PATIENCE) as next_one:
            assert next_one.fence > lease.fence
        deserted.cluster.heal()


def test_a_keeper_and_a_caller_at_two_members_are_not_both_believed(deserted: Deserted) -> None:
    """The keeper's keep-alives go to the old leader, and the caller's transactions to the others:
    what one of them says is no proof together with what the other says, in either order.
    """
    url = f"{deserted.old.url}/{root()}?session_ttl=60"
    shared = SharedLease(from_url(parse(url)))
    keeper = _backend(shared, deserted.old)
    caller = _backend(shared, *deserted.others)
    held = claim()
    assert isinstance(run(caller.attempt(held, 0.0)), Granted)
    deserted.desert()
    until(lambda: _answers(caller), "the others serve")
    proven = shared.until()

    def keep_alive(by: EtcdBackend) -> bool:
        shared.hurry()
        return run(by.keep_alive())

    assert keep_alive(keeper), "the old leader vouches for it"
    assert _answers(caller)
    assert shared.until() == proven, "a majority has answered, in another term"

    until(lambda: keep_alive(caller), "the new leader vouches for it")
    assert not _answers(keeper), "alone, it can confirm nothing"
    assert shared.until() == proven
    assert deserted.old.leads

    assert _answers(caller)
    assert shared.until() > proven, "one that speaks for the majority has said both"
    deserted.cluster.heal()
    for each in (keeper, caller):
        run(each.close())


def _backend(shared: SharedLease, *members: EtcdServer) -> EtcdBackend:
    """One of an engine's backends, whose link knows these members alone."""
    hosts = tuple((each.host, each.port) for each in members)
    settings = replace(shared.settings.driver, hosts=hosts, limit=1.0)
    return EtcdBackend(BlockingLink(settings, Members(settings)), shared, ThreadRuntime())


def _answers(backend: EtcdBackend) -> bool:
    try:
        run(backend.transact([], [Range(b"x")]))
    except locknut.BackendError:
        return False
    return True


def _renewed(lease: locknut.Lease) -> bool:
    try:
        lease.renew()
    except locknut.BackendError:
        return False
    return True
