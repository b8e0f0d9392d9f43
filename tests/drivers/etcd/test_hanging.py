"""Members that die, hang or are cut off: a command ends in time, and the next goes elsewhere."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from contextlib import suppress

import pytest

from locknut.drivers.etcd.members import Members
from locknut.drivers.etcd.requests import Link, Put, Range, Reply, created
from locknut.drivers.etcd.settings import read
from locknut.errors import BackendUnavailable
from locknut.runtimes.clock import now
from locknut.runtimes.deadlines import within
from locknut.testing.proxy import FaultProxy
from locknut.urls import parse
from tests.drivers.etcd.conftest import PATIENCE, Colour
from tests.servers.etcd import EtcdCluster, EtcdServer
from tests.servers.processes import until

pytestmark = [pytest.mark.etcd, pytest.mark.faults]
LATE = 2.5
"""How late a caller may return on a busy machine. Without a limit of ours a member that lost its
leader would keep it for six seconds and more."""


def put(colour: Colour, link: Link) -> Reply:
    return colour.run(link.transact([], [Put(b"x", b"v")]))


def put_patiently(colour: Colour, link: Link) -> Reply:
    """As the core does: again until it is done."""
    give_up = time.monotonic() + PATIENCE
    while True:
        try:
            return put(colour, link)
        except BackendUnavailable:
            assert time.monotonic() < give_up
            time.sleep(0.05)


def test_a_server_that_hangs_does_not_keep_a_command(
    colour: Colour, own_server: EtcdServer
) -> None:
    link = colour.open(own_server.url, limit=0.5)
    put_patiently(colour, link)
    own_server.stop()
    began = time.monotonic()
    with pytest.raises(BackendUnavailable, match="nothing within"):
        put(colour, link)
    assert 0.4 < time.monotonic() - began < 0.5 + LATE
    own_server.cont()
    put_patiently(colour, link)


def test_a_thread_waits_for_no_longer_than_it_may(own_server: EtcdServer) -> None:
    colour = Colour("blocking")
    link = colour.open(own_server.url, limit=60.0)
    put(colour, link)
    own_server.stop()
    began = time.monotonic()
    with pytest.raises(BackendUnavailable, match="the caller's time"):
        colour.run(within(link.transact([], [Range(b"x")]), now() + 0.3))
    assert time.monotonic() - began < 0.3 + LATE
    own_server.cont()
    colour.close()


def test_nothing_is_sent_for_who_has_no_time_left(etcd_server: EtcdServer, key: bytes) -> None:
    colour = Colour("blocking")
    link = colour.open(etcd_server.url)
    with pytest.raises(BackendUnavailable):
        colour.run(within(link.transact([], [Put(key)]), now() - 1))
    assert colour.run(link.transact([created(key, 0)], [Range(key)])).succeeded
    colour.close()


def test_who_has_no_time_left_blames_no_member(etcd_server: EtcdServer) -> None:
    """All links of an engine would leave it, and the watches with them."""
    colour = Colour("blocking")
    settings = read(parse(etcd_server.url))
    members = Members(settings)
    link = colour.beside(settings, members)
    put(colour, link)
    turn = members.turn
    late = link.transact([], [Range(b"x")])
    with pytest.raises(BackendUnavailable, match="the caller's time"):
        colour.run(within(late, now() - 1))
    assert members.turn == turn
    colour.close()


def test_a_lost_answer_is_not_asked_for_again(
    colour: Colour, etcd_server: EtcdServer, key: bytes
) -> None:
    """The outcome is unknown: the driver does not know whether twice is the same as once."""
    with FaultProxy((etcd_server.host, etcd_server.port)) as proxy:
        link = colour.open(etcd_server.url_through(proxy.port), limit=1.0)
        colour.run(link.transact([], [Range(key)]))
        proxy.replies.swallow()
        with pytest.raises(BackendUnavailable):
            colour.run(link.transact([], [Put(key, b"1")]))
        proxy.heal()
        ((found,),) = colour.run(link.transact([], [Range(key)])).answers
        assert (found.value, found.version) == (b"1", 1)


def test_a_connection_that_is_cut_is_made_again(colour: Colour, etcd_server: EtcdServer) -> None:
    with FaultProxy((etcd_server.host, etcd_server.port)) as proxy:
        link = colour.open(etcd_server.url_through(proxy.port))
        for _ in range(3):
            put_patiently(colour, link)
            proxy.cut(reset=True)
        put_patiently(colour, link)


def test_an_idle_connection_that_was_closed_costs_no_command(
    colour: Colour, etcd_server: EtcdServer
) -> None:
    with FaultProxy((etcd_server.host, etcd_server.port)) as proxy:
        link = colour.open(etcd_server.url_through(proxy.port))
        put(colour, link)
        proxy.cut()
        until(lambda: not proxy.connections, "it is cut")
        _a_moment(colour)
        put(colour, link)
        assert proxy.accepted == 2


def _a_moment(colour: Colour) -> None:
    """Long enough for an idle connection to be looked at; a loop sees by itself that it ended."""
    time.sleep(0.05)
    if not colour.blocking:
        colour.run(asyncio.sleep(0.05))


def test_another_member_is_asked_when_one_is_dead(colour: Colour, cluster: EtcdCluster) -> None:
    link = colour.open(cluster.url)
    first = put_patiently(colour, link)
    dead = next(each for each in cluster.servers if each.id == first.member)
    dead.kill()
    again = put_patiently(colour, link)
    assert again.member != first.member
    assert again.revision > first.revision


def test_a_member_that_hangs_costs_one_command(colour: Colour, cluster: EtcdCluster) -> None:
    link = colour.open(cluster.url, limit=1.0)
    first = put_patiently(colour, link)
    hanging = next(each for each in cluster.servers if each.id == first.member)
    cluster.make_leader(next(each for each in cluster.servers if each is not hanging))
    hanging.stop()
    with pytest.raises(BackendUnavailable):
        put(colour, link)
    assert put_patiently(colour, link).member != first.member
    hanging.cont()


def test_a_dying_leader_does_not_keep_a_command_for_long(
    colour: Colour, cluster: EtcdCluster
) -> None:
    """A follower keeps what it has passed on to a leader that died, for seconds."""
    follower = cluster.followers[0]
    link = colour.open(f"etcd://{follower.address}", limit=1.0)
    put_patiently(colour, link)
    leader = cluster.leader
    leader.stop()
    began = time.monotonic()
    with suppress(BackendUnavailable):  # a new leader may be there in time
        put(colour, link)
    assert time.monotonic() - began < 1.0 + LATE
    leader.cont()


def test_a_leader_that_is_cut_off_is_left(colour: Colour, cluster: EtcdCluster) -> None:
    old = cluster.leader
    others = [each.address for each in cluster.servers if each is not old]
    link = colour.open(f"etcd://{old.address},{','.join(others)}", limit=1.0)
    assert put_patiently(colour, link).member == old.id
    cluster.cut_off(old)
    assert put_patiently(colour, link).member != old.id


def test_who_knows_better_moves_on(colour: Colour, cluster: EtcdCluster) -> None:
    settings = read(parse(cluster.url))
    members = Members(settings)
    link, beside = colour.beside(settings, members), colour.beside(settings, members)
    first = put_patiently(colour, link)
    link.move_on(first.member)
    second = put_patiently(colour, link)
    assert second.member != first.member
    assert put_patiently(colour, beside).member == second.member, "all links of an engine know it"
    link.move_on(first.member)  # it was left before
    assert put_patiently(colour, link).member == second.member


def test_behind_one_address_there_may_be_several(colour: Colour, etcd_server: EtcdServer) -> None:
    """A new connection may lead to another member, where something distributes them."""
    with FaultProxy((etcd_server.host, etcd_server.port)) as proxy:
        link = colour.open(etcd_server.url_through(proxy.port))
        first = put(colour, link)
        put(colour, link)
        assert proxy.accepted == 1
        link.move_on(first.member)
        put(colour, link)
        assert proxy.accepted == 2


def test_without_any_member_it_says_so_soon(colour: Colour, cluster: EtcdCluster) -> None:
    link = colour.open(cluster.url, limit=0.5, connect_limit=0.5)
    put_patiently(colour, link)
    for server in cluster.servers:
        server.kill()
    began = time.monotonic()
    for _ in range(2):
        with pytest.raises(BackendUnavailable):
            put(colour, link)
    assert time.monotonic() - began < 4 + LATE


def test_a_cancelled_task_takes_nothing_from_the_others(
    etcd_server: EtcdServer, key: bytes
) -> None:
    """What it has sent is done, its answer is nobody's, and the connection stays, in step."""
    colour = Colour("asyncio")

    async def story(link: Link) -> None:
        await link.transact([], [Range(key)])
        tasks = [
            asyncio.create_task(link.transact([], [Put(b"%s/%d" % (key, at))])) for at in range(20)
        ]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        done = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(each, asyncio.CancelledError) for each in done[::2])
        assert all(isinstance(each, Reply) for each in done[1::2])
        found = await link.transact([], [Range(key + b"/", key + b"0")])
        assert len(found.answers[0]) == 20

    with FaultProxy((etcd_server.host, etcd_server.port)) as proxy:
        colour.run(story(colour.open(etcd_server.url_through(proxy.port))))
        assert proxy.accepted == 1
        colour.close()


class Interrupted(Exception):
    """Ctrl-C, as a test can bear it."""


def test_an_interrupted_command_leaves_no_answer_to_the_next(
    own_server: EtcdServer, key: bytes
) -> None:
    colour = Colour("blocking")
    link = colour.open(own_server.url, limit=PATIENCE)
    colour.run(link.transact([], [Put(key, b"value")]))

    def interrupt(*_: object) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGALRM, interrupt)
    own_server.stop()
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(Interrupted):
            colour.run(link.transact([], [Put(b"other", b"v")]))
    finally:
        own_server.cont()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    for _ in range(3):
        ((found,),) = colour.run(link.transact([], [Range(key)])).answers
        assert found.value == b"value"
    colour.close()


def test_many_at_a_time(etcd_server: EtcdServer, key: bytes) -> None:
    """Threads have a connection each, tasks share one."""
    with FaultProxy((etcd_server.host, etcd_server.port)) as proxy:
        url = etcd_server.url_through(proxy.port)
        tasks = Colour("asyncio")
        shared = tasks.open(url, limit=30.0)

        async def story() -> list[Reply]:
            puts = [shared.transact([], [Put(b"%s/%d" % (key, at))]) for at in range(500)]
            return await asyncio.gather(*puts)

        assert len({each.revision for each in tasks.run(story())}) == 500
        assert proxy.accepted == 1
        tasks.close()
        colour = Colour("blocking")
        link = colour.open(url, limit=30.0)
        replies: list[int] = []

        def work() -> None:
            replies.extend(put(colour, link).revision for _ in range(20))

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(set(replies)) == 160
        assert proxy.accepted <= 9
        colour.close()
