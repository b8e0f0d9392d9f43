"""A client that waits says that it lives, whatever else it does meanwhile."""

from __future__ import annotations

from locknut.backends.sql.waiting_claims import SILENCE
from locknut.core.values import Busy, Claim, Granted
from locknut.runtimes.threads import run
from tests.backends.sql.scene import Scene


def test_one_that_asks_every_second_says_it_too() -> None:
    """The first in line looks at the row so often that it might never come to its beat."""
    scene = Scene()
    holder, first, second = (scene.client() for _ in range(3))
    held, waits, behind = (Claim("a:x", f"{who:032x}", 60.0) for who in range(3))
    assert isinstance(run(holder.attempt(held, 0.0)), Granted)
    assert isinstance(run(first.attempt(waits, 0.0)), Busy)
    assert isinstance(run(second.attempt(behind, 0.0)), Busy)
    for _ in range(int(SILENCE) * 2):
        scene.pass_time(1.0)
        run(first.attempt(waits, 0.0))
        run(second.attempt(behind, 0.0))
    run(holder.release(held))
    scene.pass_time(1.0)
    assert isinstance(run(second.attempt(behind, 0.0)), Busy)  # the first is alive: its turn stays
    assert isinstance(run(first.attempt(waits, 0.0)), Granted)


def test_a_dead_one_is_passed_over() -> None:
    scene = Scene()
    holder, dead, second = (scene.client() for _ in range(3))
    held, waits, behind = (Claim("a:x", f"{who:032x}", 60.0) for who in range(3))
    run(holder.attempt(held, 0.0))
    run(dead.attempt(waits, 0.0))
    run(second.attempt(behind, 0.0))
    for _ in range(int(SILENCE) + 2):
        scene.pass_time(1.0)
        run(second.attempt(behind, 0.0))
    run(holder.release(held))
    scene.pass_time(1.0)
    assert isinstance(run(second.attempt(behind, 0.0)), Granted)


def test_a_crowd_of_one_client_says_it_once() -> None:
    scene = Scene()
    holder, crowd = scene.client(), scene.client()
    held, *waiting = (Claim("a:x", f"{who:032x}", 600.0) for who in range(61))
    run(holder.attempt(held, 0.0))
    for each in waiting:
        assert isinstance(run(crowd.attempt(each, 0.0)), Busy)
    scene.sent.clear()
    seconds = int(SILENCE) * 2
    for _ in range(seconds):
        scene.pass_time(1.0)
        for each in waiting:
            run(crowd.attempt(each, 0.0))
    assert scene.sent.count("beat") == seconds
