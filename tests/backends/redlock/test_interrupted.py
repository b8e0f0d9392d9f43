"""Ctrl-C in a thread that speaks with the nodes leaves no ghost there, and no answer is taken for
another's. It comes between noting a question and sending it, or reading an answer and telling it.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

import locknut
from locknut.backends.redlock.node_sockets import NodeSocket
from locknut.backends.redlock.nodes import NodeSet
from locknut.backends.redlock.thread_connections import ThreadConnections
from locknut.core.values import Claim
from locknut.drivers.redis.endpoints import FixedEndpoint
from locknut.drivers.redis.settings import read
from locknut.runtimes.clock import now
from locknut.urls import parse
from tests.api import interrupting, stepped, storm
from tests.servers.redlock import RedlockNodes

pytestmark = pytest.mark.redis
EVERY = 61
"""Of the moments of a kind, which are some thousand, each of these is tried."""
STEPS = pytest.mark.parametrize(
    ("step", "done"), [("_write", False), ("_take", False), ("_take", True)]
)


def interrupt(
    locks: locknut.Locks, monkeypatch: pytest.MonkeyPatch, at: int, step: str, *, done: bool
) -> None:
    """Once, at a step of this thread's connection to this node, or right behind it."""
    real, me = getattr(NodeSocket, step), threading.get_ident()

    def interrupted(connection: NodeSocket, *given: Any) -> None:
        if (
            connection.node.at == at and threading.get_ident() == me
        ):  # Ctrl-C is no keeper's business
            patched.undo()
            if done:
                real(connection, *given)
            raise KeyboardInterrupt
        real(connection, *given)

    def use() -> None:
        while True:  # two of three are enough, so not every use hears from this node
            with locks.lock(f"cut {at}", timeout=10):
                pass

    with monkeypatch.context() as patched:
        patched.setattr(NodeSocket, step, interrupted)
        with pytest.raises(KeyboardInterrupt):
            use()


@STEPS
def test_the_next_question_has_its_own_answer(
    three: RedlockNodes, monkeypatch: pytest.MonkeyPatch, step: str, done: bool
) -> None:
    """At once: with every answer one too late nobody has a majority, and all time out."""
    with locknut.connect(three.url) as locks:
        with locks.lock("warm"):
            pass
        for at in range(3):
            interrupt(locks, monkeypatch, at, step, done=done)
        for each in range(5):
            lease = locks.lock(f"free {each}").acquire(blocking=False)
            assert lease is not None
            assert lease.held


@STEPS
def test_somebody_elses_lock_is_not_had_by_the_answers_of_before(
    three: RedlockNodes, monkeypatch: pytest.MonkeyPatch, step: str, done: bool
) -> None:
    with locknut.connect(three.url) as other, locknut.connect(three.url) as locks:
        theirs = other.lock("theirs", ttl=60).acquire()
        assert theirs is not None
        for at in range(3):
            interrupt(locks, monkeypatch, at, step, done=done)
            assert locks.lock("theirs").acquire(blocking=False) is None
            with locks.lock("ours", timeout=10):
                assert locks.lock("theirs").acquire(blocking=False) is None
                assert other.lock("ours").acquire(blocking=False) is None
        theirs.release()
        assert locks.lock("theirs").acquire(timeout=10) is not None


@pytest.mark.parametrize("step", ["tear", "close"])
def test_a_second_one_while_the_first_is_cleared_up(
    three: RedlockNodes, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    with locknut.connect(three.url) as locks:
        with locks.lock("warm"):
            pass
        with monkeypatch.context() as patched:
            patched.setattr(NodeSocket, "_write", _refuse)
            patched.setattr(NodeSocket, step, _refuse)
            with pytest.raises(KeyboardInterrupt):
                locks.lock("x").acquire()
        lease = locks.lock("free").acquire(blocking=False)
        assert lease is not None


def _refuse(*_: Any) -> None:
    raise KeyboardInterrupt


def test_who_is_interrupted_while_he_takes_something_back_leaves_it_to_others() -> None:
    nodes = NodeSet([FixedEndpoint(read(parse("redis://nowhere")))], 5.0, now)
    node = nodes.nodes[0]
    claims = [Claim("locknut:x", f"{each:032x}", 5.0) for each in range(3)]
    for claim in claims:
        node.owe(claim, now())
    for at, claim in enumerate(node.debts()):
        assert claim == claims[at]
        if at == 1:
            break
    assert list(node.debts()) == claims[1:]
    assert not node.in_debt


def test_connections_may_be_interrupted_while_they_are_made() -> None:
    ThreadConnections.__new__(ThreadConnections).__del__()


def _able(kinds: Iterable[str]) -> list[str]:
    return [kind for kind in kinds if kind not in ("permit", "fair")]


@pytest.fixture(scope="module")
def few() -> Iterator[RedlockNodes]:
    """Every moment needs connections of its own to all of them, twice."""
    with RedlockNodes(3) as nodes:
        yield nodes


@pytest.mark.faults
@pytest.mark.parametrize("kind", _able(stepped.KINDS))
@pytest.mark.slow
def test_at_each_moment(few: RedlockNodes, kind: str) -> None:
    url = f"{few.url}&namespace={secrets.token_hex(4)}"
    interrupting.stepping(url, kind, EVERY, least=0)


@pytest.mark.faults
@pytest.mark.parametrize("kind", _able(storm.KINDS))
@pytest.mark.slow
def test_in_a_storm(redlock_nodes: RedlockNodes, kind: str) -> None:
    url = f"{redlock_nodes.url}&namespace={secrets.token_hex(4)}"
    interrupting.storm(url, kind, longest=8e-3)
