"""The clock of the database is set, while those of its clients go on: what that does to holds."""

from __future__ import annotations

from locknut.backends.sql.backend import SqlBackend
from locknut.backends.sql.table_port import US
from locknut.backends.sql.waiting_claims import AHEAD, BEAT, SILENCE
from locknut.core.values import Busy, Granted, Renewal
from locknut.runtimes.threads import run
from tests.backends.sql.scene import Scene, claims

HOUR = 3600.0
TTL = 60.0
HELD, WAITED, WANTED = claims(1, 2, 3, ttl=2 * HOUR)


def set_clock(scene: Scene, seconds: float) -> None:
    """Only that of the database."""
    shows = scene.place.clock
    scene.place.clock = lambda: shows() + int(seconds * US)


def test_set_forward_a_hold_ends_early_and_its_holder_is_told() -> None:
    scene = Scene()
    holder, other = scene.client(), scene.client()
    held, wanted = claims(1, 2)
    first = run(holder.attempt(held, 0.0))
    set_clock(scene, HOUR)
    second = run(other.attempt(wanted, 0.0))
    assert isinstance(first, Granted)
    assert isinstance(second, Granted)
    assert second.raw > first.raw
    assert run(holder.renew([held])) == [Renewal.LOST]


def test_set_back_holds_go_on_and_numbers_grow_one_by_one() -> None:
    scene = Scene()
    holder, other = scene.client(), scene.client()
    held, wanted, later = claims(1, 2, 3)
    first = run(holder.attempt(held, 0.0))
    set_clock(scene, -HOUR)
    assert isinstance(run(other.attempt(wanted, 0.0)), Busy)
    assert run(holder.renew([held])) == [Renewal.HELD]
    assert run(holder.release(held))
    second = run(other.attempt(wanted, 0.0))
    assert run(other.release(wanted))
    third = run(other.attempt(later, 0.0))
    assert isinstance(first, Granted)
    assert isinstance(second, Granted)
    assert isinstance(third, Granted)
    assert (second.raw, third.raw) == (first.raw + 1, first.raw + 2)


def test_set_back_what_a_dead_holder_left_stays_longer_unless_it_is_broken() -> None:
    scene = Scene()
    dead, other = scene.client(), scene.client()
    held, wanted, later = claims(1, 2, 3)
    run(dead.attempt(held, 0.0))
    set_clock(scene, -HOUR)
    scene.pass_time(TTL + 1)
    assert isinstance(run(other.attempt(wanted._replace(waits=False), 0.0)), Busy)
    scene.pass_time(HOUR)
    assert isinstance(run(other.attempt(wanted, 0.0)), Granted)
    set_clock(scene, -HOUR)
    scene.pass_time(TTL + 1)
    assert isinstance(run(dead.attempt(later._replace(waits=False), 0.0)), Busy)
    assert run(dead.break_hold("a:x", None)) is not None
    assert isinstance(run(dead.attempt(later, 0.0)), Granted)


def line_of(scene: Scene) -> tuple[SqlBackend, SqlBackend, SqlBackend]:
    """A holder, one that waits behind it and has said so, and a newcomer."""
    holder, waiter, other = (scene.client() for _ in range(3))
    run(holder.attempt(HELD, 0.0))
    run(waiter.attempt(WAITED, 0.0))
    scene.pass_time(BEAT)
    run(waiter.attempt(WAITED, 0.0))
    return holder, waiter, other


def test_set_back_the_place_of_a_dead_one_is_free_soon() -> None:
    """Its coming and its note seem to be of the future, which shows nothing."""
    scene = Scene()
    holder, _, other = line_of(scene)
    set_clock(scene, -HOUR)
    run(holder.release(HELD))
    assert isinstance(run(other.attempt(WANTED, 0.0)), Granted)


def test_set_back_one_that_lives_says_so_anew_and_keeps_its_place() -> None:
    scene = Scene()
    holder, waiter, other = line_of(scene)
    set_clock(scene, -HOUR)
    scene.pass_time(BEAT)
    run(waiter.attempt(WAITED, 0.0))
    run(holder.release(HELD))
    assert isinstance(run(other.attempt(WANTED, 0.0)), Busy)
    assert [len(each.waiters) for each in run(other.inspect("a:x"))] == [2]
    assert isinstance(run(waiter.attempt(WAITED, 0.0)), Granted)


def test_set_back_by_little_its_place_stays_for_as_long() -> None:
    """Also one that came after a statement began, which then waited for the row, is ahead of it."""
    scene = Scene()
    holder, _, other = line_of(scene)
    set_clock(scene, -AHEAD / 2)
    run(holder.release(HELD))
    assert isinstance(run(other.attempt(WANTED, 0.0)), Busy)
    scene.pass_time(AHEAD / 2 + SILENCE + 1)
    assert isinstance(run(other.attempt(WANTED, 0.0)), Granted)
