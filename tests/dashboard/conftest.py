"""What the tests of the dashboard share: a place with locks in it, and pages about it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

import locknut
from locknut.dashboard import Dashboard
from tests.dashboard.browsing import browser
from tests.dashboard.visitors import Visitor
from tests.observer.people import Waiters

__all__ = ["browser"]

Visit = Callable[..., Visitor]


@pytest.fixture
def locks(request: pytest.FixtureRequest) -> Iterator[locknut.Locks]:
    with locknut.connect(f"memory:{abs(hash(request.node.nodeid))}") as made:
        yield made


@pytest.fixture
def visit(locks: locknut.Locks) -> Iterator[Visit]:
    """A visitor of a dashboard that has looked once; `sources` in place of the usual one."""
    with ExitStack() as stack:

        def make(*sources: Any, **options: Any) -> Visitor:
            dashboard = Dashboard(*(sources or (locks,)), refresh=0.05, **options)
            stack.callback(dashboard.close)
            for each in dashboard.places.all.values():
                each.look()
            return Visitor(dashboard)

        yield make


@pytest.fixture
def queue_up(locks: locknut.Locks) -> Iterator[Callable[[str], None]]:
    """Makes somebody else wait for a lock, until it is free."""
    with Waiters() as waiters:
        yield lambda name: waiters.queue_up(locks, name)
