"""The key of the session is put again: what may happen between that and its answer."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import pytest

from locknut.backends.etcd import leased_link
from locknut.backends.etcd.backend import EtcdBackend
from locknut.core.values import Busy, Claim, Granted, Renewal
from locknut.drivers.etcd.requests import Compare, Operation, Put, Reply
from locknut.errors import BackendUnavailable
from locknut.runtimes.threads import ThreadRuntime, run
from tests.backends.etcd.conftest import claim, engine, eventually
from tests.backends.etcd.local_engine import LocalCluster, LocalEngine
from tests.servers.etcd import EtcdServer

A_MINUTE = 60.0


class PutAgain:
    """Something happens when the key was put again, and before the answer is read."""

    def __init__(self, port: EtcdBackend, monkeypatch: pytest.MonkeyPatch):
        self.count = 0
        self.happens: Callable[[], None] = lambda: None
        self._port = port
        self._real = port.link.transact
        monkeypatch.setattr(port.link, "transact", self._transact)

    async def _transact(
        self,
        compares: Sequence[Compare],
        then: Sequence[Operation],
        otherwise: Sequence[Operation] = (),
    ) -> Reply:
        reply = await self._real(compares, then, otherwise)
        key = self._port.shared.session.key
        if any(isinstance(each, Put) and each.key == key for each in then):
            self.count += 1
            self.happens()
        return reply


class Story:
    """A holder whose tombstones are about to go away."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.cluster = LocalCluster()
        self.passed, began = 0.0, self.cluster.now()
        self.port, self.other = (
            LocalEngine(self.cluster).blocking(ThreadRuntime()) for _ in range(2)
        )
        self.port.now = self.other.now = self.cluster.now = lambda: began + self.passed
        self.held = claim("held")
        assert isinstance(run(self.port.attempt(self.held, 0.0)), Granted)
        run(self.port.release(claim("given up"), outcome_unknown=True))
        self.put_again = PutAgain(self.port, monkeypatch)
        self.told: list[object] = []
        self.port.listen(lambda claim_id, what: self.told.append((claim_id, what)))

    def renewed_while(self, happens: Callable[[], None]) -> list[Any]:
        """What the renewal says in which the key is put again."""
        self.put_again.happens = happens
        answers: list[Any] = []
        while not self.put_again.count:
            self.passed += 2.0
            answers = list(run(self.port.renew([self.held])))
        return answers

    def goes_on(self) -> None:
        after = claim()
        assert isinstance(run(self.port.attempt(after, 0.0)), Granted)
        assert run(self.port.release(after))


@pytest.fixture
def story(monkeypatch: pytest.MonkeyPatch) -> Story:
    return Story(monkeypatch)


def test_a_process_that_is_stopped_there_for_a_minute_holds_nothing(story: Story) -> None:
    def stopped() -> None:
        story.passed += A_MINUTE
        assert isinstance(run(story.other.attempt(claim("held"), 0.0)), Granted)

    assert story.renewed_while(stopped) == [Renewal.UNKNOWN]
    assert story.told == [(None, Renewal.LOST)]
    assert isinstance(run(story.port.attempt(claim("held", waits=False), 0.0)), Busy)
    story.goes_on()


def test_nor_does_one_whose_server_comes_back_empty(story: Story) -> None:
    def emptied() -> None:
        store = story.cluster.store
        store.keys.clear()
        store.leases.clear()
        store.revision = 1
        assert isinstance(run(story.other.attempt(claim("held"), 0.0)), Granted)

    assert story.renewed_while(emptied) == [Renewal.UNKNOWN]
    assert story.told == [(None, Renewal.LOST)]
    story.goes_on()


def test_a_put_that_the_server_forgets_keeps_nobody_out(story: Story) -> None:
    """It did not wait for its disk, and comes back as it was before."""
    store, (lease, key, _) = story.cluster.store, story.port.shared.session
    before = store.keys[key]

    def forgotten() -> None:
        store.keys[key] = before

    assert story.renewed_while(forgotten) == [Renewal.HELD], "its key is there"
    story.goes_on()
    assert story.port.shared.id != lease


@pytest.mark.parametrize("error", [BackendUnavailable("no answer"), KeyboardInterrupt()])
def test_an_answer_that_nobody_hears_is_asked_for_again(story: Story, error: BaseException) -> None:
    def lost() -> None:
        story.put_again.happens = lambda: None
        raise error

    with pytest.raises(type(error)):
        story.renewed_while(lost)
    story.passed += 3.0  # the next one is due
    assert list(run(story.port.renew([story.held]))) == [Renewal.HELD]
    _, key, stamp = story.port.shared.session
    assert stamp == story.cluster.store.keys[key].mod_revision
    story.goes_on()


@pytest.mark.slow
@pytest.mark.etcd
@pytest.mark.faults
@pytest.mark.parametrize("what", ["stopped", "empty"])
def test_on_a_real_server(path: str, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """The answer is there, and nobody reads it until another client has the lock."""
    monkeypatch.setattr(leased_link, "TOMBSTONE", 0.1)
    with EtcdServer() as server:
        url = f"{server.url}/{path}?session_ttl=2"
        port, other = (engine(url).blocking(ThreadRuntime()) for _ in range(2))
        held = claim("held")
        assert _granted(port, held)
        run(port.release(claim("given up"), outcome_unknown=True))

        def passed_on() -> None:
            if what == "empty":
                server.kill()
                shutil.rmtree(server.folder / "data")
                server.start()
            eventually(lambda: _granted(other, after), "the other one has it")

        after, put_again = claim("held", waits=False), PutAgain(port, monkeypatch)
        put_again.happens = passed_on
        answers: list[Any] = []
        while not put_again.count:
            time.sleep(0.1)
            answers = list(run(port.renew([held])))
        assert answers[0] in (Renewal.UNKNOWN, Renewal.LOST)
        assert not _granted(port, claim("held", waits=False))
        eventually(lambda: _granted(port, claim("next", waits=False)), "it goes on")
        for each in (port, other):
            run(each.close())


def _granted(port: EtcdBackend, wanted: Claim) -> bool:
    with suppress(BackendUnavailable):
        return isinstance(run(port.attempt(wanted, 0.0)), Granted)
    return False
