"""How often a member waits for its disk, by its own count: what the page of the engine promises."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Callable, Iterator

import pytest

import locknut
from tests.servers.etcd import EtcdServer

pytestmark = pytest.mark.etcd

TIMES = 20
OF_ITS_OWN = 2
"""So many may be about something else: a member that has just begun writes its address."""
SYNCS = "etcd_disk_wal_fsync_duration_seconds_count"


@pytest.fixture(scope="module")
def server() -> Iterator[EtcdServer]:
    with EtcdServer(waits_for_disk=True) as server:
        yield server


def syncs(server: EtcdServer) -> int:
    with urllib.request.urlopen(f"http://{server.address}/metrics", timeout=5) as answer:
        found = re.search(rf"^{SYNCS} (\S+)$", answer.read().decode(), re.MULTILINE)
    assert found is not None
    return int(float(found[1]))


def cost(server: EtcdServer, verb: Callable[[], object]) -> float:
    """Of each time, on average; the first is not counted, as a lease is asked for then."""
    verb()
    before = syncs(server)
    for _ in range(TIMES):
        verb()
    return (syncs(server) - before) / TIMES


def test_each_verb_waits_for_the_disk_as_often_as_the_page_says(server: EtcdServer) -> None:
    """Also those that write nothing: a renewal, with the keep-alives before it, and a look."""
    with locknut.connect(server.url) as locks, locknut.connect(server.url) as other:
        several = locks.all(*(f"all-{n}" for n in range(33)))

        def pair() -> None:
            with locks.lock("x"):
                pass

        def pair_of_several() -> None:
            with several:
                pass

        def refused() -> None:
            assert locks.lock("held", timeout=0).acquire() is None

        def seen() -> None:
            locks.info("held")

        with other.lock("held") as held:
            promised = {pair: 2, pair_of_several: 2, refused: 1, held.renew: 0, seen: 0}
            for verb, times in promised.items():
                counted = cost(server, verb)
                assert times <= counted <= times + OF_ITS_OWN / TIMES, verb
