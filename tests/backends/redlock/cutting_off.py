"""One client holds a lock by two of three nodes, for it is cut off from the third."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import locknut
from locknut.errors import BackendUnavailable
from locknut.testing.proxy import FaultProxy
from tests.servers.processes import until
from tests.servers.redlock import RedlockNodes

TTL = 3.0


def url_of(nodes: RedlockNodes, max_ttl: float = TTL) -> str:
    """Those who are cut off know nodes by other addresses, so the set has a name."""
    return f"redlock://{nodes.hosts}?max_ttl={max_ttl:g}&set_name=one"


@contextmanager
def only(nodes: RedlockNodes, *reached: int) -> Iterator[str]:
    """A URL of the same set, for somebody who reaches only these nodes."""
    with ExitStack() as stack:
        ways = [stack.enter_context(FaultProxy((n.host, n.port))) for n in nodes.nodes]
        for at, way in enumerate(ways):
            if at not in reached:
                way.refuse()
        hosts = ",".join(f"{way.host}:{way.port}" for way in ways)
        yield f"redlock://{hosts}?set_name=one"


@contextmanager
def holding(
    nodes: RedlockNodes, without: int, max_ttl: float = TTL, ttl: float = TTL
) -> Iterator[locknut.Lease]:
    """By the two others alone."""
    reached = {0, 1, 2} - {without}
    with only(nodes, *reached) as url, locknut.connect(f"{url}&max_ttl={max_ttl:g}") as locks:
        lease = locks.lock("x", ttl=ttl, auto_renew=False).acquire(timeout=5)
        assert lease is not None
        others = [each for at, each in enumerate(nodes.nodes) if at != without]
        until(lambda: all(n.ask("EXISTS", "locknut:{x}:redlock") for n in others), "both voted")
        yield lease


def nobody_else_comes_in(url: str, lease: locknut.Lease) -> None:
    """Until the hold is over; then somebody does, with a larger fence."""
    assert lease.held, "it took too long to show anything"
    with locknut.connect(url) as locks:
        other = None
        give_up = time.monotonic() + 60
        while other is None:
            assert time.monotonic() < give_up, "nobody ever gets it"
            with suppress(BackendUnavailable):
                other = locks.lock("x", ttl=2).acquire(timeout=1)
        assert not lease.held, f"two hold it; the first for {lease.remaining} s more"
        assert other.fence > lease.fence
        other.release()
