"""A forked child lets its parent's session alone, in both colours."""

from __future__ import annotations

import socket

import pytest

import locknut
from locknut.backends.zookeeper.kazoo_client import Handler
from tests.backends.zookeeper.conftest import PATIENCE
from tests.forks.child import start_child, wait_for
from tests.forks.engine_children import (
    a_dead_parents_lock_is_free,
    a_loop_survives_the_child,
    the_childs_lease_is_inert,
)

pytestmark = [pytest.mark.zookeeper, pytest.mark.faults]


def test_the_childs_lease_is_inert_and_the_parents_lives(url: str) -> None:
    the_childs_lease_is_inert(url)


def test_a_loops_session_survives_the_child(url: str) -> None:
    a_loop_survives_the_child(url)


def test_a_fork_while_kazoo_starts_leaves_no_socket_open(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes between the making of the sockets and their being noted by kazoo."""
    children: list[int] = []
    make = Handler.create_socket_pair

    def make_and_fork(self: Handler) -> tuple[socket.socket, socket.socket]:
        pair: tuple[socket.socket, socket.socket] = make(self)

        def check() -> None:
            assert [each.fileno() for each in pair] == [-1, -1]

        children.append(start_child(check))
        return pair

    monkeypatch.setattr(Handler, "create_socket_pair", make_and_fork)
    with locknut.connect(url) as locks, locks.lock("x", timeout=PATIENCE):
        (child,) = children
        wait_for(child)


@pytest.mark.slow
def test_the_child_does_not_keep_its_dead_parents_lock(url: str) -> None:
    """Of the sockets it has inherited none is left open, and nobody pings."""
    a_dead_parents_lock_is_free(f"{url}?session_timeout=5", PATIENCE)
