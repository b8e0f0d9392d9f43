"""Every trouble that `make demo-ops` plays is named on the first page within two or three listings.

A listing is made every two seconds, so that comes to five seconds. How long it took is printed; on
a busy machine a listing takes longer, and what is counted here are listings.
"""

from __future__ import annotations

import runpy
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import locknut
from locknut.dashboard import Dashboard
from locknut.observer.place_observer import PlaceObserver
from tests.contracts.sources import ROOT
from tests.dashboard.test_pages import text_of
from tests.dashboard.visitors import Visitor
from tests.servers.redis import RedisServer

Troubles: Any = runpy.run_path(str(ROOT / "scripts" / "demo_ops.py"))["Troubles"]
PATIENCE = 120.0
ONE_THAT_SHOWS_IT = 2
"""Listings after it happened: the one that may be under way just then, and the next."""
TWO_THAT_SHOW_IT = 3
"""A circle counts when two listings have shown it."""


class Trouble(NamedTuple):
    """How to see from outside that it happened, and what the first page says of it."""

    happened: Callable[[], object]
    words: str
    listings: int = ONE_THAT_SHOWS_IT


class Scene(NamedTuple):
    """A place in trouble, and a dashboard at its default refresh that looks at it from outside, as
    `locknut dash` does: nobody tells it anything but the engine.
    """

    locks: locknut.Locks
    troubles: Any
    observer: PlaceObserver
    visitor: Visitor

    def named(self, trouble: Trouble) -> tuple[float, int]:
        """Seconds and listings from the moment when it happened until the first page names it."""
        _wait(trouble.happened, f"nothing to say: {trouble.words}")
        began, version = time.monotonic(), self.observer.picture.version
        while trouble.words not in text_of(self.visitor.get("/").text):
            assert time.monotonic() < began + PATIENCE, f"never named: {trouble.words}"
            time.sleep(0.05)
        return time.monotonic() - began, self.observer.picture.version - version


def _wait(check: Callable[[], object], what: str) -> None:
    give_up = time.monotonic() + PATIENCE
    while not check():
        assert time.monotonic() < give_up, what
        time.sleep(0.05)


@pytest.fixture(params=[pytest.param("redis", marks=pytest.mark.redis), "file"])
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Scene]:
    with ExitStack() as stack:
        url = f"file://{tmp_path}/locks"
        if request.param == "redis":
            url = stack.enter_context(RedisServer()).url
        locks = stack.enter_context(locknut.connect(url, label="operator", history=1000))
        dashboard = stack.enter_context(closing(Dashboard(url)))
        (observer,) = dashboard.places.all.values()
        observer.start()
        troubles = stack.enter_context(Troubles(url, locks))
        yield Scene(locks, troubles, observer, Visitor(dashboard))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_first_page_names_every_trouble(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    locks, troubles = scene.locks, scene.troubles
    contention = Trouble(lambda: locks.info("inventory:17").waiters, "inventory:17")
    deadlock = Trouble(lambda: locks.waits_for().deadlocks, "is in a deadlock", TWO_THAT_SHOW_IT)
    told = {"contention": _within(scene, contention), "deadlock": _within(scene, deadlock)}
    breaker = threading.Thread(target=troubles.break_one)
    breaker.start()
    _wait(lambda: locks.info("payments:settle").holders, "nobody settles")
    fence = locks.info("payments:settle").holders[0].fence

    def is_written_down() -> bool:  # a second later or so; no listing tells a break from a release
        told = locks.history("payments:settle")
        return any(each.kind == "broken" and each.fence == fence for each in told)

    broken = Trouble(is_written_down, "payments:settle was broken by force")
    told["broken lock"] = _within(scene, broken)
    breaker.join(PATIENCE)
    if locknut.Capability.LEASE in locks.capabilities:
        troubles.lose()
        lost = Trouble(
            lambda: not locks.info("order:42").holders, "order:42 was not renewed and ran out"
        )
        told["lost lease"] = _within(scene, lost)
    with capsys.disabled():
        said = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in told.items())
        print(f"\n{locks.backend}: named on the first page after: {said}")


def _within(scene: Scene, trouble: Trouble) -> float:
    seconds, listings = scene.named(trouble)
    assert listings <= trouble.listings, f"{trouble.words}: {listings} listings, {seconds:.1f} s"
    return seconds
