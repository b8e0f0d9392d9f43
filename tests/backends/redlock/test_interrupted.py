"""Ctrl-C in a thread that speaks with the nodes: no answer is ever taken for another's.

It comes between two steps of one connection: noted as sent and not sent, or read and not told.
"""

from __future__ import annotations

import threading
from typing import Any

import pytest

import holdfast
from holdfast.backends.redlock.peers import Peer
from tests.servers.redlock import RedlockNodes

pytestmark = pytest.mark.redis
STEPS = pytest.mark.parametrize(
    ("step", "done"), [("_write", False), ("_take", False), ("_take", True)]
)


def interrupt(
    locks: holdfast.Locks, monkeypatch: pytest.MonkeyPatch, at: int, step: str, *, done: bool
) -> None:
    """Once, at a step of this thread's connection to this node, or right behind it."""
    real, me = getattr(Peer, step), threading.get_ident()

    def interrupted(peer: Peer, *given: Any) -> None:
        if peer.node.at == at and threading.get_ident() == me:  # Ctrl-C is no keeper's business
            patched.undo()
            if done:
                real(peer, *given)
            raise KeyboardInterrupt
        real(peer, *given)

    def use() -> None:
        while True:  # two of three are enough, so not every use hears from this node
            with locks.lock(f"cut {at}", timeout=10):
                pass

    with monkeypatch.context() as patched:
        patched.setattr(Peer, step, interrupted)
        with pytest.raises(KeyboardInterrupt):
            use()


@STEPS
def test_the_next_question_has_its_own_answer(
    three: RedlockNodes, monkeypatch: pytest.MonkeyPatch, step: str, done: bool
) -> None:
    """At once: with every answer one too late nobody has a majority, and all time out."""
    with holdfast.connect(three.url) as locks:
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
    with holdfast.connect(three.url) as other, holdfast.connect(three.url) as locks:
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
    with holdfast.connect(three.url) as locks:
        with locks.lock("warm"):
            pass
        with monkeypatch.context() as patched:
            patched.setattr(Peer, "_write", _refuse)
            patched.setattr(Peer, step, _refuse)
            with pytest.raises(KeyboardInterrupt):
                locks.lock("x").acquire()
        lease = locks.lock("free").acquire(blocking=False)
        assert lease is not None


def _refuse(*_: Any) -> None:
    raise KeyboardInterrupt
