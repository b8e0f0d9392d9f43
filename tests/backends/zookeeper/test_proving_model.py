"""A session in a model of three servers: it is never believed in for longer than it lives."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from kazoo.protocol.serialization import Sync

from locknut.backends.zookeeper import requests
from locknut.backends.zookeeper.session_proof import Proof
from tests.backends.zookeeper.modelling import World

SCHEDULES = 250


def schedules() -> Iterator[World]:
    """Each to its end."""
    for seed in range(SCHEDULES):
        world = World(seed)
        world.run()
        yield world


def broken(world: World) -> bool:
    return world.promised > world.expired


def test_nobody_believes_in_a_session_that_has_expired() -> None:
    expired = proofs = 0
    for seed, world in enumerate(schedules()):
        assert not broken(world), seed
        expired += bool(world.expired)
        proofs += world.client.proven
    assert expired > SCHEDULES / 4, "otherwise this shows nothing"
    assert proofs > SCHEDULES * 10


def _believe_syncs(patched: pytest.MonkeyPatch) -> None:
    patched.setattr(requests, "PROVING", Sync("/"))
    patched.setattr(requests, "MAJORITY", requests.THROUGH_LEADER)


def _believe_reconnects(patched: pytest.MonkeyPatch) -> None:
    connected = Proof.connected

    def hasty(self: Proof, sent: float, at: float, timeout: float, new: bool) -> None:
        connected(self, sent, at, timeout, new=True)

    patched.setattr(Proof, "connected", hasty)


def _do_not_ask_once_more(patched: pytest.MonkeyPatch) -> None:
    answered = Proof.answered

    def hasty(self: Proof, sent: float, at: float, *, majority: bool) -> None:
        answered(self, sent, at, majority=majority)
        while self._accepted:
            self._since = max(self._since, self._accepted.popleft()[0])

    patched.setattr(Proof, "answered", hasty)


@pytest.mark.parametrize("bug", [_believe_syncs, _believe_reconnects, _do_not_ask_once_more])
def test_what_is_believed_too_early_is_found_out(
    monkeypatch: pytest.MonkeyPatch, bug: Callable[[pytest.MonkeyPatch], None]
) -> None:
    """The same schedules, with a rule left out."""
    bug(monkeypatch)
    assert any(broken(world) for world in schedules())
