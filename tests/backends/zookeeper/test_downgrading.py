"""A writer goes on as a reader: its node gets another name, and its renewals do not miss it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kazoo.client import KazooClient

from locknut.backends.zookeeper import node_names
from locknut.backends.zookeeper.backend import ZooKeeperBackend
from locknut.core.values import Claim, Granted, Mode, Renewal
from locknut.errors import BackendUnavailable
from locknut.runtimes.threads import ThreadRuntime, run
from tests.backends.zookeeper.conftest import claim, engine

pytestmark = pytest.mark.zookeeper


@pytest.fixture
def port(url: str) -> Iterator[ZooKeeperBackend]:
    made: Any = engine(url).blocking(ThreadRuntime())
    yield made
    run(made.close())


@pytest.fixture
def writer(port: ZooKeeperBackend) -> Claim:
    made = claim("x", writer=True)
    assert isinstance(run(port.attempt(made, 0.0)), Granted)
    return made


def shared(of: Claim) -> Claim:
    return of._replace(mode=Mode.SHARED)


def is_held(port: ZooKeeperBackend, of: Claim) -> bool:
    (answer,) = run(port.renew([of]))
    return answer not in (Renewal.LOST, Renewal.UNKNOWN)


@pytest.mark.parametrize("applied", [False, True])
def test_one_that_was_not_answered_is_no_loss(
    port: ZooKeeperBackend, writer: Claim, monkeypatch: pytest.MonkeyPatch, applied: bool
) -> None:
    """The keeper asked for the old name, which was gone, and told of a loss."""
    swap = port.all_or_nothing

    async def unanswered(*operations: Any) -> bool:
        if applied:
            assert await swap(*operations)
        raise BackendUnavailable("the answer is lost", backend="zookeeper")

    monkeypatch.setattr(port, "all_or_nothing", unanswered)
    with pytest.raises(BackendUnavailable):
        run(port.downgrade(writer))
    assert is_held(port, writer)
    monkeypatch.undo()
    assert run(port.downgrade(writer))
    assert is_held(port, shared(writer))
    assert run(port.release(shared(writer)))


def test_one_that_nobody_heard_of_again_is_renewed_and_released(
    port: ZooKeeperBackend, writer: Claim, monkeypatch: pytest.MonkeyPatch
) -> None:
    swap = port.all_or_nothing

    async def unanswered(*operations: Any) -> bool:
        assert await swap(*operations)
        raise BackendUnavailable("the answer is lost", backend="zookeeper")

    monkeypatch.setattr(port, "all_or_nothing", unanswered)
    with pytest.raises(BackendUnavailable):
        run(port.downgrade(writer))
    monkeypatch.undo()
    assert is_held(port, shared(writer))
    assert run(port.release(shared(writer)))
    assert run(port.inspect(writer.key)) == []


def test_a_renewal_that_it_overtook_is_no_loss(
    port: ZooKeeperBackend, writer: Claim, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The keeper has the old name in hand when the node gets its new one."""
    send = port.answers

    async def overtaken(requests: Any) -> Any:
        monkeypatch.undo()
        assert await port.downgrade(writer)
        return await send(requests)

    monkeypatch.setattr(port, "answers", overtaken)
    assert run(port.renew([writer])) == [Renewal.UNKNOWN]
    assert is_held(port, shared(writer))


def test_one_whose_node_was_removed_meanwhile_is_a_loss(
    port: ZooKeeperBackend, writer: Claim, monkeypatch: pytest.MonkeyPatch, kazoo: KazooClient
) -> None:
    async def unanswered(*_: Any) -> bool:
        raise BackendUnavailable("the answer is lost", backend="zookeeper")

    monkeypatch.setattr(port, "all_or_nothing", unanswered)
    with pytest.raises(BackendUnavailable):
        run(port.downgrade(writer))
    folder = node_names.folder(port.session.settings.root, writer.key)
    (only,) = kazoo.get_children(folder)
    kazoo.delete(f"{folder}/{only}")
    assert run(port.renew([writer])) == [Renewal.LOST]
