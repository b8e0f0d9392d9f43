"""A forked child lets its parent's connections and watches alone, and makes its own."""

from __future__ import annotations

import pytest

from locknut.drivers.etcd.requests import Link, Put, Range, What
from locknut.drivers.etcd.sync import BlockingLink
from locknut.runtimes import sockets as noted
from locknut.runtimes.threads import run
from tests.drivers.etcd.conftest import Colour, Heard
from tests.forks.child import in_child, sockets
from tests.servers.etcd import EtcdServer

pytestmark = [pytest.mark.etcd, pytest.mark.faults]


def test_both_go_on_by_themselves(colour: Colour, etcd_server: EtcdServer, key: bytes) -> None:
    link = colour.open(etcd_server.url)
    heard = Heard()
    colour.run(_nothing())  # a loop has sockets of its own
    before = sockets()
    revision = colour.run(link.transact([], [Put(key, b"1")])).revision
    link.watch(key, revision, heard)
    assert heard.next().what is What.CHANGED
    parents = sockets() - before
    assert len(parents) == 4, "of the commands, of the watches, and what wakes their thread"

    def child() -> None:
        noted.close_inherited()
        link.forked()
        assert not sockets() & parents, "a copy that stays open keeps the connection open"
        own: Link = link if isinstance(link, BlockingLink) else _blocking(etcd_server)
        (found,) = run(own.transact([], [Range(key)])).answers
        assert [each.value for each in found] == [b"1"]
        told = Heard()
        own.watch(key, revision, told)
        assert told.next().what is What.CHANGED
        assert not link.inside()
        run(own.transact([], [Put(key, b"2")]))
        assert told.next().what is What.CHANGED
        assert heard.nothing(), "the parent's watch rings nobody here"

    in_child(child)
    assert heard.next().what is What.CHANGED
    assert heard.nothing()
    for _ in range(3):
        ((found,),) = colour.run(link.transact([], [Range(key)])).answers
        assert found.value == b"2"


async def _nothing() -> None: ...


def _blocking(server: EtcdServer) -> Link:
    return Colour("blocking").open(server.url)


def test_a_child_of_a_thread_that_began_a_watch(etcd_server: EtcdServer, key: bytes) -> None:
    """The mutex is the parent's, too: in the child nobody would ever let it go."""
    colour = Colour("blocking")
    link = colour.open(etcd_server.url)
    assert isinstance(link, BlockingLink)
    revision = run(link.transact([], [Put(key)])).revision

    def child() -> None:
        link.forked()
        heard = Heard()
        link.watch(key, revision, heard)
        assert heard.next().what is What.CHANGED

    with link.watcher.guard:
        assert link.inside()
        in_child(child)
    assert not link.inside()
    colour.close()
