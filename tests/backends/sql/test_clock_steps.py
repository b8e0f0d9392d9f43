"""The clock of the database is set, while those of its clients go on: what that does to holds."""

from __future__ import annotations

from locknut.backends.sql.table_port import US
from locknut.backends.sql.waiting_claims import SILENCE
from locknut.core.values import Busy, Granted, Renewal
from locknut.runtimes.threads import run
from tests.backends.sql.scene import Scene, claims

HOUR = 3600.0
TTL = 60.0


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


def test_set_back_the_place_of_a_dead_one_stays_longer() -> None:
    scene = Scene()
    holder, dead, other = (scene.client() for _ in range(3))
    held, waited, wanted = claims(1, 2, 3)
    run(holder.attempt(held, 0.0))
    run(dead.attempt(waited, 0.0))
    set_clock(scene, -HOUR)
    run(holder.release(held))
    scene.pass_time(SILENCE + 1)
    assert isinstance(run(other.attempt(wanted, 0.0)), Busy)
    scene.pass_time(HOUR)
    assert isinstance(run(other.attempt(wanted, 0.0)), Granted)
