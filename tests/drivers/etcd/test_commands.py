"""Transactions and leases do what the port says, on every etcd that is supported."""

from __future__ import annotations

from typing import Any

import pytest

from locknut.drivers.etcd import aio, blocking_connection, http2
from locknut.drivers.etcd.requests import (
    Compare,
    Delete,
    LeaseGone,
    Link,
    Put,
    Range,
    Relation,
    Target,
    after,
    created,
    leased,
    modified,
    nobody_under,
)
from locknut.errors import BackendError, BackendUnavailable
from locknut.runtimes.clock import now
from tests.drivers.etcd.conftest import Colour
from tests.servers.etcd import EtcdServer

pytestmark = pytest.mark.etcd
PING = 6


@pytest.fixture(params=["etcd_server", "etcd35_server"])
def link(request: pytest.FixtureRequest, colour: Colour) -> Link:
    server: EtcdServer = request.getfixturevalue(request.param)
    return colour.open(server.url)


def test_what_was_put_is_found_with_its_revisions(link: Link, colour: Colour, key: bytes) -> None:
    async def story() -> None:
        began = now()
        made = await link.transact([created(key, 0)], [Put(key, b"1"), Range(key)])
        assert made.succeeded
        nothing, (found,) = made.answers
        assert (nothing, found.key, found.value) == ([], key, b"1")
        assert found.create_revision == found.mod_revision == made.revision > 0
        assert (found.version, found.lease) == (1, 0)
        assert began <= made.sent <= now()
        assert made.member
        assert made.term
        again = await link.transact([created(key, 0)], [Put(key, b"2")], [Range(key)])
        assert not again.succeeded
        assert again.answers == [[found]]
        changed = await link.transact([modified(key, made.revision)], [Put(key, b"\0\xff")])
        assert changed.succeeded
        assert changed.revision > made.revision
        deleted = await link.transact([created(key, made.revision)], [Delete(key), Range(key)])
        assert deleted.succeeded
        assert deleted.answers == [[], []]

    colour.run(story())


def test_a_range_is_in_the_order_of_creation(link: Link, colour: Colour, key: bytes) -> None:
    async def story() -> None:
        names = [key + name for name in (b"/c", b"/a", b"/b")]
        revisions = [(await link.transact([], [Put(each, b"x")])).revision for each in names]
        await link.transact([], [Put(names[0], b"y")])  # a change makes it no younger
        prefix = key + b"/"
        asked = [
            Range(prefix, after(prefix)),
            Range(prefix, after(prefix), newest_first=True, limit=1),
            Range(prefix, after(prefix), newest_first=True, max_create_revision=revisions[1]),
            Range(prefix, after(prefix), keys_only=True, limit=2),
        ]
        all_, newest, older, bare = (await link.transact([], asked)).answers
        assert [each.key for each in all_] == names
        assert [each.create_revision for each in all_] == revisions
        assert [each.key for each in newest] == names[-1:]
        assert [each.key for each in older] == [names[1], names[0]]
        assert [(each.key, each.value) for each in bare] == [(names[0], b""), (names[1], b"")]

    colour.run(story())


def test_a_prefix_can_be_asked_for_being_empty(link: Link, colour: Colour, key: bytes) -> None:
    async def story() -> None:
        prefix, neighbour = key + b"/", key + b"0"
        await link.transact([], [Put(neighbour)])
        first = await link.transact([nobody_under(prefix)], [Put(prefix + b"x")])
        second = await link.transact([nobody_under(prefix)], [Put(prefix + b"y")])
        assert (first.succeeded, second.succeeded) == (True, False)
        await link.transact([], [Delete(prefix, after(prefix))])
        assert (await link.transact([nobody_under(prefix)], [Range(prefix)])).succeeded

    colour.run(story())


def test_every_compare_says_what_it_means(link: Link, colour: Colour, key: bytes) -> None:
    async def story() -> None:
        lease = (await link.grant(60)).id
        made = (await link.transact([], [Put(key, b"v", lease)])).revision
        true = [
            Compare(key, Target.VERSION, Relation.EQUAL, 1),
            Compare(key, Target.CREATED, Relation.LESS, made + 1),
            Compare(key, Target.MODIFIED, Relation.GREATER, made - 1),
            Compare(key, Target.VALUE, Relation.EQUAL, b"v"),
            Compare(key, Target.VALUE, Relation.NOT_EQUAL, b""),
            leased(key, lease),
        ]
        false = [
            Compare(key, Target.VERSION, Relation.NOT_EQUAL, 1),
            Compare(key, Target.VALUE, Relation.EQUAL, b""),
            leased(key, 0),
            created(key, 0),
        ]
        assert (await link.transact(true, [Range(key)])).succeeded
        for each in false:
            assert not (await link.transact([each], [Range(key)])).succeeded, each
        await link.revoke(lease)

    colour.run(story())


def test_a_put_keeps_what_it_is_told_to_keep(link: Link, colour: Colour, key: bytes) -> None:
    async def story() -> None:
        one, other = (await link.grant(60)).id, (await link.grant(60)).id
        made = await link.transact([], [Put(key, b"v", one)])
        await link.transact([], [Put(key, b"", other, ignore_value=True)])
        await link.transact([], [Put(key, b"w", 0, ignore_lease=True)])
        ((found,),) = (await link.transact([], [Range(key)])).answers
        assert (found.value, found.lease, found.version) == (b"w", other, 3)
        assert found.create_revision == made.revision
        assert await link.revoke(one)
        assert (await link.transact([created(key, made.revision)], [Range(key)])).succeeded
        assert await link.revoke(other)
        assert (await link.transact([created(key, 0)], [Range(key)])).succeeded

    colour.run(story())


def test_a_lease_lives_as_long_as_the_cluster_says(link: Link, colour: Colour, key: bytes) -> None:
    async def story() -> None:
        granted = await link.grant(100)
        assert (granted.ttl, granted.id != 0, granted.term > 0) == (100, True, True)
        kept = await link.keep_alive(granted.id)
        assert kept[:3] == granted[:3]
        named = await link.grant(1, 4711)
        assert named.id == 4711
        assert named.ttl >= 1
        with pytest.raises(BackendError, match="already exists"):
            await link.grant(1, 4711)
        assert await link.revoke(4711)
        assert not await link.revoke(4711)
        assert (await link.keep_alive(4711)).ttl == 0
        with pytest.raises(LeaseGone):
            await link.transact([], [Put(key + b"1"), Put(key, b"v", 4711)])
        assert (await link.transact([created(key + b"1", 0)], [Range(key)])).succeeded
        await link.revoke(granted.id)

    colour.run(story())


def test_long_requests_and_answers_pass(link: Link, colour: Colour, key: bytes) -> None:
    """Far more than a server takes in one go: it has to ask for the rest."""

    async def story() -> None:
        values = [bytes([each]) * 10_000 for each in range(100)]
        for _ in range(3):
            puts = [Put(b"%s/%03d" % (key, at), value) for at, value in enumerate(values)]
            await link.transact([], puts)
        (found,) = (await link.transact([], [Range(key + b"/", after(key + b"/"))])).answers
        assert [each.value for each in sorted(found)] == values
        await link.transact([], [Delete(key + b"/", after(key + b"/"))])

    colour.run(story())


def test_what_is_too_much_is_refused_and_the_next_is_done(
    link: Link, colour: Colour, key: bytes
) -> None:
    async def story() -> None:
        with pytest.raises(BackendError, match="too many operations") as refused:
            await link.transact([], [Put(b"%s%d" % (key, at)) for at in range(200)])
        assert not isinstance(refused.value, BackendUnavailable), "it said no"
        with pytest.raises(BackendError, match="duplicate key"):
            await link.transact([], [Put(key), Put(key)])
        assert (await link.transact([created(key, 0)], [Put(key)])).succeeded

    colour.run(story())


@pytest.mark.parametrize("polite", [3600.0, 0.0])
def test_a_member_asks_for_signs_of_life_as_fast_as_it_gets_them(
    link: Link,
    colour: Colour,
    key: bytes,
    monkeypatch: pytest.MonkeyPatch,
    polite: float,
) -> None:
    """Where each is answered at once, every request is two writes and two reads on both sides."""
    asked = 0
    real = http2._TAKERS[PING]

    def count(*ping: Any) -> None:
        nonlocal asked
        asked += 1
        real(*ping)

    async def story() -> None:
        for n in range(20):
            await link.transact([], [Put(key, b"%d" % n)])

    monkeypatch.setitem(http2._TAKERS, PING, count)
    module = blocking_connection if colour.blocking else aio
    monkeypatch.setattr(module, "POLITE", polite)
    colour.run(story())
    assert asked > 1 if polite == 0.0 else asked <= 1
