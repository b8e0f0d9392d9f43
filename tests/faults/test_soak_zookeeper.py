"""The same storm on an ensemble of three, whose leader is killed and whose follower is stopped."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.backends.zookeeper.conftest import root
from tests.faults.test_soak import SECONDS, storm
from tests.servers.zookeeper import ZooKeeperEnsemble

pytestmark = [pytest.mark.faults, pytest.mark.zookeeper]


@pytest.mark.timeout(SECONDS + 120)
@pytest.mark.slow
def test_the_storm_with_servers_that_fail(
    zookeeper_ensemble: ZooKeeperEnsemble, tmp_path: Path
) -> None:
    url = f"{zookeeper_ensemble.url}/{root()}?session_timeout=3"
    steps = _blows(zookeeper_ensemble)
    pace = SECONDS / 5
    due = time.monotonic() + pace

    def meanwhile() -> None:
        nonlocal due
        if time.monotonic() > due:
            due += pace
            next(steps, lambda: None)()

    try:
        storm(url, tmp_path / "journals", SECONDS, meanwhile)
    finally:
        zookeeper_ensemble.wait_until_whole()


def _blows(ensemble: ZooKeeperEnsemble) -> Iterator[Callable[[], object]]:
    leader = ensemble.leader
    yield leader.kill
    yield leader.launch
    stopped = next(each for each in ensemble.servers if each is not leader)
    yield stopped.stop
    yield stopped.cont
