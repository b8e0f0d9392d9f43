"""A watch tells each change once and in order, whatever becomes of its connection."""

from __future__ import annotations

import threading

import pytest

from locknut.drivers.etcd import key_watcher
from locknut.drivers.etcd.members import Members
from locknut.drivers.etcd.requests import Delete, Event, Link, Put, Range, What, after
from locknut.drivers.etcd.settings import read
from locknut.testing.proxy import FaultProxy
from locknut.urls import parse
from tests.drivers.etcd.conftest import Colour, Heard
from tests.drivers.etcd.test_hanging import put_patiently
from tests.servers.etcd import EtcdCluster, EtcdServer
from tests.servers.processes import until

pytestmark = pytest.mark.etcd


def put(colour: Colour, link: Link, key: bytes) -> int:
    return colour.run(link.transact([], [Put(key)])).revision


def test_changes_and_deletes_are_told_in_order(link: Link, colour: Colour, key: bytes) -> None:
    heard = Heard()
    first = put(colour, link, key)
    watch = link.watch(key, first + 1, heard)
    second = put(colour, link, key)
    put(colour, link, key + b"x")
    third = colour.run(link.transact([], [Delete(key)])).revision
    assert heard.next() == Event(What.CHANGED, key, second)
    assert heard.next() == Event(What.DELETED, key, third)
    watch.close()
    assert heard.nothing()


def test_what_happened_before_the_watch_is_told(link: Link, colour: Colour, key: bytes) -> None:
    """From the revision on that it names: between asking and watching nothing is missed."""
    heard = Heard()
    first = put(colour, link, key)
    gone = colour.run(link.transact([], [Delete(key)])).revision
    link.watch(key, first + 1, heard)
    assert heard.next() == Event(What.DELETED, key, gone)


def test_a_range_is_watched_as_a_whole(link: Link, colour: Colour, key: bytes) -> None:
    heard = Heard()
    prefix = key + b"/"
    keys = {prefix + b"a", prefix + b"b"}
    revision = colour.run(link.transact([], [Put(each) for each in keys])).revision
    link.watch(prefix, revision, heard, end=after(prefix))
    assert {heard.next() for _ in keys} == {Event(What.CHANGED, each, revision) for each in keys}
    gone = colour.run(link.transact([], [Delete(prefix, after(prefix))])).revision
    assert {heard.next() for _ in keys} == {Event(What.DELETED, each, gone) for each in keys}


def test_a_closed_watch_is_silent_and_the_others_are_not(
    link: Link, colour: Colour, key: bytes
) -> None:
    closed, open_ = Heard(), Heard()
    revision = put(colour, link, key)
    link.watch(key, revision + 1, closed).close()
    watch = link.watch(key, revision + 1, closed)
    link.watch(key, revision + 1, open_)
    put(colour, link, key)
    assert open_.next() == closed.next()
    watch.close()
    watch.close()
    put(colour, link, key)
    open_.next()
    assert closed.nothing()


def test_a_compacted_revision_is_told_as_ask_again(
    link: Link, colour: Colour, key: bytes, etcd_server: EtcdServer
) -> None:
    heard = Heard()
    first = put(colour, link, key)
    last = put(colour, link, key)
    etcd_server.etcdctl("compaction", str(last))
    link.watch(key, first, heard)
    assert heard.next() == Event(What.ASK_AGAIN)
    now = colour.run(link.transact([], [Range(key)]))
    link.watch(key, now.revision + 1, heard)
    changed = put(colour, link, key)
    assert heard.next() == Event(What.CHANGED, key, changed)


@pytest.mark.faults
def test_a_cut_connection_is_resumed_without_a_gap(
    colour: Colour, etcd_server: EtcdServer, key: bytes
) -> None:
    heard = Heard()
    link = colour.open(etcd_server.url)
    with FaultProxy((etcd_server.host, etcd_server.port)) as proxy:
        watching = colour.open(etcd_server.url_through(proxy.port))
        revision = put(colour, link, key)
        watching.watch(key, revision + 1, heard)
        for round_ in range(3):
            told = put(colour, link, key)
            assert heard.next() == Event(What.CHANGED, key, told)
            proxy.refuse()
            proxy.cut(reset=bool(round_))
            missed = [put(colour, link, key) for _ in range(5)]
            assert heard.nothing()
            proxy.heal()
            assert [heard.next().revision for _ in missed] == missed
        assert heard.nothing(), "none is told twice"


@pytest.mark.faults
@pytest.mark.slow
def test_many_watches_share_one_connection(
    colour: Colour, etcd_server: EtcdServer, key: bytes
) -> None:
    with FaultProxy((etcd_server.host, etcd_server.port)) as proxy:
        link = colour.open(etcd_server.url_through(proxy.port))
        revision = put(colour, link, key)
        heard = {b"%s/%d" % (key, at): Heard() for at in range(300)}
        for name, each in heard.items():
            link.watch(name, revision + 1, each)
        for name, each in heard.items():
            told = put(colour, link, name)
            assert each.next() == Event(What.CHANGED, name, told)
        assert proxy.accepted == 2, "one for the commands, one for the watches"
        proxy.cut()
        for name, each in heard.items():
            put_patiently(colour, link)
            told = put(colour, link, name)
            assert each.next() == Event(What.CHANGED, name, told)


@pytest.mark.faults
@pytest.mark.slow
def test_watches_follow_to_another_member(
    colour: Colour, cluster: EtcdCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A member that hangs says nothing: a command finds out, and the watches go along."""
    monkeypatch.setattr("locknut.drivers.etcd.watch_stream.PING_AFTER", 3600.0)
    heard = Heard()
    link = colour.open(cluster.url, limit=1.0)
    first = put_patiently(colour, link)
    link.watch(b"x", first.revision + 1, heard)
    told = put_patiently(colour, link)
    assert heard.next().revision == told.revision
    hanging = next(each for each in cluster.servers if each.id == first.member)
    hanging.stop()
    told = put_patiently(colour, link)
    assert told.member != first.member
    revisions = [heard.next().revision]
    while revisions[-1] < told.revision:  # one may have been done by the member that hangs
        revisions.append(heard.next().revision)
    hanging.cont()
    assert revisions == sorted(set(revisions))


@pytest.mark.faults
@pytest.mark.slow
def test_watches_leave_a_member_that_is_cut_off(colour: Colour, cluster: EtcdCluster) -> None:
    """It says that it has no leader; nobody else has to find out."""
    heard = Heard()
    old = cluster.followers[0]
    others = [each for each in cluster.servers if each is not old]
    link = colour.open(f"etcd://{old.address},{','.join(each.address for each in others)}")
    writing = colour.open(f"etcd://{','.join(each.address for each in others)}")
    revision = put_patiently(colour, link).revision
    link.watch(b"x", revision + 1, heard)
    told = put_patiently(colour, writing)
    assert heard.next().revision == told.revision
    cluster.cut_off(old)
    told = put_patiently(colour, writing)
    assert heard.next().revision == told.revision


@pytest.mark.faults
def test_a_silent_connection_is_noticed(
    colour: Colour, etcd_server: EtcdServer, key: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("locknut.drivers.etcd.watch_stream.PING_AFTER", 0.3)
    monkeypatch.setattr("locknut.drivers.etcd.watch_stream.PONG_WITHIN", 0.5)
    heard = Heard()
    link = colour.open(etcd_server.url)
    with FaultProxy((etcd_server.host, etcd_server.port)) as proxy:
        watching = colour.open(etcd_server.url_through(proxy.port))
        revision = put(colour, link, key)
        watching.watch(key, revision + 1, heard)
        put(colour, link, key)
        heard.next()
        proxy.strand()
        told = put(colour, link, key)
        assert heard.next().revision == told


def test_the_thread_ends_when_nobody_watches(
    link: Link, colour: Colour, key: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_watcher, "LINGER", 0.2)
    before = set(threading.enumerate())
    heard = Heard()
    for _ in range(2):
        revision = put(colour, link, key)
        watch = link.watch(key, revision, heard)
        heard.next()
        assert _threads() - before
        watch.close()
        until(lambda: not _threads() - before, "the thread has ended")


@pytest.mark.faults
def test_nobody_connects_for_watches_that_have_ended(
    colour: Colour, etcd_server: EtcdServer, key: bytes
) -> None:
    """The stream is kept for a while. If its member is left meanwhile, there is no other: the
    thread connected again and again, as fast as it could.
    """
    before = set(threading.enumerate())
    heard = Heard()
    with FaultProxy((etcd_server.host, etcd_server.port)) as proxy:
        settings = read(parse(etcd_server.url_through(proxy.port)))
        members = Members(settings)
        link = colour.beside(settings, members)
        watch = link.watch(key, put(colour, link, key), heard)
        heard.next()
        watch.close()
        accepted = proxy.accepted
        members.leave(members.turn)
        until(lambda: not _threads() - before, "the thread has ended")
        assert proxy.accepted == accepted


def test_the_thread_ends_with_its_link(colour: Colour, etcd_server: EtcdServer) -> None:
    before = set(threading.enumerate())
    link = colour.open(etcd_server.url)
    heard = Heard()
    revision = put(colour, link, b"x")
    link.watch(b"x", revision, heard)
    heard.next()
    colour.run(link.close())
    until(lambda: not _threads() - before, "the thread has ended")


def _threads() -> set[threading.Thread]:
    return {each for each in threading.enumerate() if each.name == "locknut-etcd-watches"}
