"""Most servers of an ensemble are gone: holders lose their leases in time, callers are told."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest

import locknut
from locknut import aio
from locknut.core.values import State
from locknut.errors import BackendUnavailable
from tests.backends.zookeeper.conftest import PATIENCE, eventually, root
from tests.servers.zookeeper import ZooKeeperEnsemble

pytestmark = [pytest.mark.zookeeper, pytest.mark.faults]
FROM, TO = 5.0, 8.0
"""It asks for 5 s; the first command and the last one may take 1.5 s each."""
BUSY = 1.0
"""A busy machine's share."""


@pytest.fixture
def url(zookeeper_ensemble: ZooKeeperEnsemble) -> Iterator[str]:
    yield f"{zookeeper_ensemble.url}/{root()}?session_timeout=6"
    zookeeper_ensemble.wait_until_whole()


@pytest.mark.slow
def test_a_lease_is_at_risk_then_lost_and_an_acquire_gives_up(
    zookeeper_ensemble: ZooKeeperEnsemble, url: str
) -> None:
    with locknut.connect(url) as locks:
        lease = locks.lock("x").acquire()
        assert lease is not None
        for each in zookeeper_ensemble.servers[:2]:
            each.kill()
        eventually(lambda: lease.state is State.AT_RISK, "noticed")
        assert lease.lost.wait(PATIENCE)
        for timeout, soonest, latest in ((None, FROM, TO), (0.5, 0.5, 0.7)):
            began = time.monotonic()
            with pytest.raises(BackendUnavailable):
                locks.lock("y").acquire(timeout=timeout)
            assert soonest <= time.monotonic() - began < latest + BUSY


@pytest.mark.slow
def test_the_same_on_a_loop(zookeeper_ensemble: ZooKeeperEnsemble, url: str) -> None:
    async def story() -> None:
        async with aio.connect(url) as locks:
            lease = await locks.lock("x").acquire()
            assert lease is not None
            for each in zookeeper_ensemble.servers[:2]:
                each.kill()
            assert await lease.lost.wait(PATIENCE)
            began = time.monotonic()
            with pytest.raises(BackendUnavailable):
                await locks.lock("y").acquire()
            assert FROM <= time.monotonic() - began < TO + BUSY

    asyncio.run(story())
