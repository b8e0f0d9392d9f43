"""Who waits gets its turn: after a lost answer, behind the dead, and after an older state."""

from __future__ import annotations

import pytest

from locknut.backends.sql.table_port import LOCK
from locknut.backends.sql.waiting_claims import SILENCE
from locknut.core.values import Busy, Claim, Granted, Mode, Renewal
from locknut.errors import BackendUnavailable
from locknut.runtimes.threads import run
from tests.backends.sql.scene import Scene, claims

KEY = LOCK + b"a:x"


def test_a_question_without_an_answer_is_asked_again_at_once() -> None:
    """Far back in the line it would otherwise look again seconds later, and hold meanwhile."""
    scene = Scene()
    client = scene.client()
    writer, *readers = claims(0, 1, 2, 3)
    readers = [reader._replace(mode=Mode.SHARED) for reader in readers]
    run(client.attempt(writer, 0.0))
    for reader in readers:
        run(client.attempt(reader, 0.0))
        run(client.attempt(reader, 0.0))
    run(client.release(writer))  # all of them are rung
    run(client.attempt(readers[0], 0.0))
    scene.unanswered.append("take")
    with pytest.raises(BackendUnavailable):
        run(client.attempt(readers[2], 0.0))
    assert isinstance(run(client.attempt(readers[2], 0.0)), Granted)


def _left_by_a_dead_one(scene: Scene) -> None:
    """The line of a free lock, in which only somebody stands who is gone."""
    holder, dead = scene.client(), scene.client()
    held, waits = claims(0, 1)
    run(holder.attempt(held, 0.0))
    run(dead.attempt(waits, 0.0))
    run(holder.release(held))


def test_one_that_only_tries_is_not_kept_out_by_the_dead() -> None:
    scene = Scene()
    _left_by_a_dead_one(scene)
    (tries,) = claims(2, waits=False)
    assert isinstance(run(scene.client().attempt(tries, 0.0)), Busy)  # not yet known to be dead
    scene.pass_time(SILENCE + 1)
    assert isinstance(run(scene.client().attempt(tries, 0.0)), Granted)
    assert not scene.place.store.rows[KEY].line


def test_nor_is_one_that_wants_several() -> None:
    scene = Scene()
    _left_by_a_dead_one(scene)
    (one,) = claims(2)
    other = Claim("a:y", f"{3:032x}", 60.0)
    assert isinstance(run(scene.client().attempt_all([other, one])), Busy)
    scene.pass_time(SILENCE + 1)
    granted = run(scene.client().attempt_all([other, one]))
    assert isinstance(granted, list)
    assert len(granted) == 2


def test_a_hold_that_an_older_state_has_waiting_leaves_the_line() -> None:
    """Its client lives, so the others would wait for it to come for ever."""
    scene = Scene()
    client, other = scene.client(), scene.client()
    first, mine, next_one = claims(0, 1, 2)
    run(other.attempt(first, 0.0))
    run(client.attempt(mine, 0.0))
    older = dict(scene.place.store.rows)
    run(other.release(first))
    scene.pass_time(1.0)
    assert isinstance(run(client.attempt(mine, 0.0)), Granted)
    scene.place.store.rows.clear()
    scene.place.store.rows.update(older)
    run(other.release(first))
    assert run(client.renew([mine])) == [Renewal.LOST]
    assert isinstance(run(other.attempt(next_one, 0.0)), Granted)


def test_what_was_released_after_its_end_does_not_come_back_with_a_clock() -> None:
    scene = Scene()
    client = scene.client()
    readers = claims(0, 1, mode=Mode.SHARED)
    for reader in readers:
        run(client.attempt(reader, 0.0))
    scene.pass_time(61.0)
    assert [run(client.release(reader)) for reader in readers] == [False, False]
    scene.pass_time(-2.0)
    (writer,) = claims(2)
    assert isinstance(run(client.attempt(writer, 0.0)), Granted)
