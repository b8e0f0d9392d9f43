"""A resolver may be silent for long: nobody waits for it longer than it can, and it is asked once.

Before, each connection asked it anew, on the thread of whoever wanted the connection: a call with a
timeout of a second took ten, and so did a keeper that had to tell its holders of a loss.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from locknut.runtimes import cpython, host_names
from tests.forks.child import in_child
from tests.servers.resolver import PATIENCE, Resolver, in_its_place

NAME = "node.example"


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Resolver]:
    with in_its_place(monkeypatch, NAME) as resolver:
        yield resolver


def test_who_has_no_time_left_goes_and_the_next_waits_for_the_same_look_up(
    resolver: Resolver,
) -> None:
    for _ in range(3):
        with pytest.raises(TimeoutError, match=NAME):
            host_names.addresses(NAME, 1, 0.05)
    assert resolver.asked == 1
    resolver.answers.set()
    assert [each[4] for each in host_names.addresses(NAME, 1, PATIENCE)] == [("127.0.0.1", 1)]


def test_who_asks_later_asks_anew(resolver: Resolver) -> None:
    """A name may move."""
    resolver.answers.set()
    for number in range(1, 4):
        host_names.addresses(NAME, number, PATIENCE)
        assert resolver.asked == number


@pytest.mark.parametrize(
    "error", [socket.gaierror(-2, "nobody knows it"), UnicodeError("label too long")]
)
def test_what_it_answers_is_told_to_each_who_waits(resolver: Resolver, error: Exception) -> None:
    resolver.found, resolver.error = None, error
    resolver.answers.set()
    for _ in range(2):
        with pytest.raises(type(error), match=str(error.args[-1])) as raised:
            host_names.addresses(NAME, 1, PATIENCE)
        assert raised.value.__cause__ is error


def test_that_nobody_knows_a_name_is_remembered_for_a_moment(
    resolver: Resolver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who kept asking paid for the whole look-up each time, ten seconds where no server of names
    answered.
    """
    clock = [1000.0]
    monkeypatch.setattr(host_names, "now", lambda: clock[0])
    resolver.found = None
    resolver.answers.set()
    for port in (1, 1, 2):
        with pytest.raises(socket.gaierror, match="nobody knows it"):
            host_names.addresses(NAME, port, PATIENCE)
    assert resolver.asked == 1
    resolver.found = "127.0.0.1"
    clock[0] += host_names.SHORTLY
    assert host_names.addresses(NAME, 1, PATIENCE)
    resolver.found = None
    with pytest.raises(socket.gaierror):
        host_names.addresses(NAME, 1, PATIENCE)
    assert resolver.asked == 3, "nothing was remembered of a name that was found since"


def test_an_address_is_not_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_names, "_LookUp", None)
    for host in ("127.0.0.1", "::1"):
        assert host_names.addresses(host, 1, 0.0)[0][4][:2] == (host, 1)
    assert not host_names.is_address("a\0b")


def test_a_forked_child_asks_anew(resolver: Resolver) -> None:
    """The thread that asks for its parent is not there."""
    with pytest.raises(TimeoutError):
        host_names.addresses(NAME, 1, 0.05)

    def child() -> None:
        resolver.answers.set()
        assert host_names.addresses(NAME, 1, PATIENCE)

    in_child(child)
    assert not resolver.answers.is_set(), "the child has its own"


def test_without_a_thread_it_is_looked_up_all_the_same(
    resolver: Resolver, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(cpython.UnawaitedThread, "start", refuse)
    resolver.answers.set()
    assert host_names.addresses(NAME, 1, 0.0)
