"""The header of an answer means the same however often its member was heard, and among others."""

from __future__ import annotations

import pytest

from locknut.drivers.etcd import rpc_messages as messages
from locknut.drivers.etcd.protobuf import inner, number

BIG = 0xCDF8_18D1_94E3_A8C5
NAMES = [(BIG, BIG - 1), (BIG, BIG - 2), (BIG, 3), (3, BIG), (3, 4), (0, BIG), (BIG, 0), (0, 0)]


def header(cluster: int, member: int, revision: int, term: int) -> bytes:
    return number(1, cluster) + number(2, member) + number(3, revision) + number(4, term)


@pytest.fixture(autouse=True)
def nobody_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "_members", {})
    monkeypatch.setattr(messages, "_lengths", [])


def test_it_is_understood_among_others() -> None:
    for revision in (1, 127, 128, 1 << 40):
        for cluster, member in NAMES:
            for term in (1, 300, 0):
                told = inner(1, header(cluster, member, revision, term))
                found = messages.reply(told, 0.0)
                assert (found.member, found.revision, found.term) == (member, revision, term)


def test_one_that_is_written_in_another_way_is_understood() -> None:
    """Fields may come in any order, and a number may be longer than it need be."""
    odd = number(3, 9) + number(2, 7) + number(1, BIG)
    long = b"\x08\x85\x00" + number(2, 7) + number(3, 9)
    for told in (odd, long, odd, long):
        found = messages.reply(inner(1, told), 0.0)
        assert (found.member, found.revision, found.term) == (7, 9, 0)


def test_so_many_members_are_remembered() -> None:
    for member in range(1, 3 * messages._MOST_MEMBERS):
        told = inner(1, header(BIG, member, 5, 6))
        assert messages.reply(told, 0.0).member == member
    assert len(messages._members) == messages._MOST_MEMBERS


def test_one_that_is_cut_short_is_none() -> None:
    whole = header(BIG, BIG, 5, 6)
    messages.reply(inner(1, whole), 0.0)
    for size in range(1, len(whole)):
        try:
            found = messages.reply(inner(1, whole[:size]), 0.0)
        except ValueError:
            continue
        assert found.revision in {0, 5}
