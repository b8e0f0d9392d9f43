"""The memcached of the simulator answers as a real one does, command by command."""

from __future__ import annotations

import re
import socket
from contextlib import closing
from itertools import count
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.servers.memcached import MemcachedServer
from tests.simulation.memcached.cache import Cache

pytestmark = pytest.mark.memcached
_runs = count()
KEYS = ("a", "b")
KNOWN = ("none", "right", "wrong")


class Move(NamedTuple):
    """One command; which CAS id it names depends on what the key has."""

    verb: str
    key: str
    value: bytes
    known: str
    ttl: int


MOVES = st.builds(
    Move,
    st.sampled_from(("add", "set", "delete", "look", "make", "glance", "touch")),
    st.sampled_from(KEYS),
    st.sampled_from((b"free", b"", b"x" * 100)),
    st.sampled_from(KNOWN),
    st.sampled_from((30, 300)),
)


class Peer:
    """One of the two: what it answered, and which CAS ids it gave."""

    def __init__(self) -> None:
        self.ids: dict[str, int] = {}

    def packed(self, move: Move, prefix: str) -> bytes:
        key, right = f"{prefix}{move.key}".encode(), self.ids.get(move.key, 10**9)
        wanted = {"none": "", "right": f" C{right}", "wrong": f" C{right + 10**6}"}[move.known]
        head = b"ms %s %d T%d" % (key, len(move.value), move.ttl)
        body = b"\r\n%s\r\n" % move.value
        return {
            "add": head + b" ME c" + body,
            "set": head + wanted.encode() + b" c" + body,
            "delete": b"md %s%s\r\n" % (key, wanted.encode()),
            "look": b"mg %s v c t\r\n" % key,
            "make": b"mg %s v c t N%d\r\n" % (key, move.ttl),
            "glance": b"mg %s c\r\n" % key,
            "touch": b"mg %s T%d t\r\n" % (key, move.ttl),
        }[move.verb]

    def heard(self, move: Move, answer: bytes) -> bytes:
        """The answer without its CAS id, which is kept: the two count from different beginnings."""
        found = re.match(rb"(?:HD|VA \d+) c(\d+)", answer)
        if found is not None:
            self.ids[move.key] = int(found[1])
        # Where it did nothing, a real one tells an id too: nobody reads that.
        return re.sub(rb"^(NF|NS|EX) c\d+", rb"\1", re.sub(rb"(HD|VA \d+) c\d+", rb"\1 c", answer))


def _ask(wire: socket.socket, packed: bytes) -> bytes:
    wire.sendall(packed + b"mn\r\n")  # answered last: all that came before it is the answer
    told = b""
    while not told.endswith(b"MN\r\n"):
        told += wire.recv(65536)
    return told.removesuffix(b"MN\r\n")


@settings(deadline=None, max_examples=150)
@given(st.lists(MOVES, max_size=12))
def test_it_answers_as_a_real_one_does(
    memcached_server: MemcachedServer, moves: list[Move]
) -> None:
    prefix, cache = f"imitated{next(_runs)}:", Cache()
    real, imitation = Peer(), Peer()
    with closing(memcached_server._connect()) as wire:
        for move in moves:
            said = _ask(wire, real.packed(move, prefix))
            answer = cache.run(imitation.packed(move, prefix), 0)
            assert real.heard(move, _timeless(said)) == imitation.heard(move, _timeless(answer))


def _timeless(answer: bytes) -> bytes:
    """Seconds may pass at the real one meanwhile: nearly 30 left is 30, and nearly 300 is 300."""
    return re.sub(rb" t(?:[12]\d|30)\b", b" t30", re.sub(rb" t2\d\d\b", b" t300", answer))


def test_an_item_is_gone_when_its_second_has_come(memcached_server: MemcachedServer) -> None:
    """Both live by whole seconds, which begin at any moment: up to one less than was asked for."""
    cache = Cache()
    cache.run(b"ms x 4 T2 c\r\nfree\r\n", 10)
    assert cache.run(b"mg x c\r\n", 11) == b"HD c1\r\n"
    assert cache.run(b"mg x c\r\n", 12) == b"EN\r\n"
    with closing(memcached_server._connect()) as wire:
        _ask(wire, b"ms second 4 T2\r\nfree\r\n")
        seconds = set()
        while (answer := _ask(wire, b"mg second t\r\n")) != b"EN\r\n":
            seconds.add(answer)
        assert seconds <= {b"HD t2\r\n", b"HD t1\r\n"}, "it is gone before it has no second left"
