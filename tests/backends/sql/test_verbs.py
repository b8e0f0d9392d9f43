"""The verbs of the backend: what they send, remember and make of what they hear."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import pytest

from locknut.backends.sql import lock_views
from locknut.backends.sql.table_port import LOCK, Swap
from locknut.backends.sql.waiting_claims import BEAT, NEAR, SILENCE
from locknut.core.values import Busy, Claim, Granted, Mode, Renewal
from locknut.errors import BackendUnavailable
from locknut.runtimes.threads import run
from tests.backends.sql.scene import Scene, claims

KEY = LOCK + b"a:x"


def test_the_common_case_is_one_statement() -> None:
    scene = Scene()
    client = scene.client()
    one, other = claims(0, 1)
    assert isinstance(run(client.attempt(one, 0.0)), Granted)
    assert run(client.renew([one])) == [Renewal.HELD]
    assert run(client.release(one))
    assert scene.sent == ["take", "extend", "give_back"]
    assert not run(client.release(other))


def test_a_hold_that_has_run_out_was_not_released() -> None:
    scene = Scene()
    client = scene.client()
    (one,) = claims(0)
    run(client.attempt(one, 0.0))
    scene.pass_time(61.0)
    assert not run(client.release(one))
    assert run(client.renew([one])) == [Renewal.LOST]


def test_a_waiter_that_was_rung_asks_once() -> None:
    scene = Scene()
    client = scene.client()
    one, other = claims(0, 1)
    run(client.attempt(one, 0.0))
    run(client.attempt(other, 0.0))
    run(client.attempt(other, 0.0))  # rung when it was first expected
    scene.sent.clear()
    assert isinstance(run(client.attempt(other, 0.0)), Busy)
    assert scene.sent == []
    run(client.release(one))
    assert isinstance(run(client.attempt(other, 0.0)), Granted)


def test_a_waiter_that_was_not_rung_looks_by_itself() -> None:
    scene = Scene()
    client = scene.client()
    one, other = claims(0, 1)
    run(client.attempt(one, 0.0))
    run(client.attempt(other, 0.0))
    refused = run(client.attempt(other, 0.0))
    assert isinstance(refused, Busy)
    assert refused.retry_in <= NEAR
    scene.place.rings.clear()
    run(client.release(one))
    scene.pass_time(NEAR)
    assert isinstance(run(client.attempt(other, 0.0)), Granted)


def test_who_waits_far_back_comes_for_the_beat_and_again_if_that_fails() -> None:
    scene = Scene()
    client = scene.client()
    everybody = claims(0, 1, 2, 3)
    for claim in everybody:
        run(client.attempt(claim, 0.0))
    last = everybody[-1]
    refused = run(client.attempt(last, 0.0))
    assert isinstance(refused, Busy)
    assert refused.retry_in <= BEAT
    scene.pass_time(BEAT)
    scene.unanswered.append("beat")
    with pytest.raises(BackendUnavailable):
        run(client.attempt(last, 0.0))
    scene.sent.clear()
    with suppress(BackendUnavailable):
        run(client.attempt(last, 0.0))
    assert scene.sent[0] == "beat"


def test_what_is_released_is_forgotten() -> None:
    scene = Scene()
    client = scene.client()
    one, other, third = claims(0, 1, 2)
    for claim in (one, other, third):
        run(client.attempt(claim, 0.0))
    assert not run(client.release(other))
    assert set(scene.place.rings) == {third.id}
    assert set(client._waiting.by_id) == {third.id}
    run(client.release_all([third]))
    assert not scene.place.rings
    assert not client._waiting.by_id
    assert not scene.place.store.rows[KEY].line


@pytest.mark.parametrize("several", [False, True])
def test_doubt_leaves_a_tombstone(several: bool) -> None:
    scene = Scene()
    client = scene.client()
    (one,) = claims(0)
    if several:
        run(client.release_all([one], outcome_unknown=True))
    else:
        run(client.release(one, outcome_unknown=True))
    assert isinstance(run(client.attempt(one, 0.0)), Busy)
    assert isinstance(run(client.attempt_all([one])), Busy)
    assert not scene.place.store.rows[KEY].line
    assert not scene.place.store.rows[KEY].holders


def test_what_is_not_known_of_one_renewal_spoils_no_other() -> None:
    scene = Scene()
    client = scene.client()
    holder, *waiters = claims(0, 1, 2)
    alone = Claim("a:y", f"{9:032x}", 60.0)
    for claim in (holder, *waiters, alone):
        run(client.attempt(claim, 0.0))
    scene.unanswered.append("swap")  # who lost its hold, and waits again, leaves the line
    answers = run(client.renew([alone, *waiters]))
    assert answers == [Renewal.HELD, Renewal.UNKNOWN, Renewal.LOST]


def _interrupted(scene: Scene) -> list[object]:
    """Somebody else writes before the next swap; returned is what all swaps wanted."""
    swaps: list[object] = []
    swap = scene.place.store.swap

    def interrupted(wanted: Sequence[Swap]) -> bool:
        swaps.append(wanted)
        if len(swaps) == 1:
            row = scene.place.store.rows[KEY]
            scene.place.store.rows[KEY] = row._replace(stamp=7)
        return swap(wanted)

    scene.place.store.swap = interrupted  # type: ignore[method-assign, assignment]
    return swaps


def test_a_change_is_made_anew_when_somebody_wrote_meanwhile() -> None:
    scene = Scene()
    client = scene.client()
    readers = claims(0, 1, mode=Mode.SHARED)
    for reader in readers:
        run(client.attempt(reader, 0.0))
    swaps = _interrupted(scene)
    assert run(client.detach(readers[0], 90.0))
    assert len(swaps) == 2
    assert "=" in scene.place.store.rows[KEY].holders


def test_no_stamp_comes_again_after_an_older_state() -> None:
    """Else a change that was decided by the newer state would be written into the older one."""
    scene = Scene()
    client = scene.client()
    (one,) = claims(0)
    run(client.attempt(one, 0.0))
    older, stamps = dict(scene.place.store.rows), set()
    for _ in range(2):
        scene.place.store.rows.update(older)
        for _ in range(3):
            run(client.renew([one]))
            stamps.add(scene.place.store.rows[KEY].stamp)
    assert len(stamps) == 6


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("disturbed", [False, True])
def test_company_that_has_left_keeps_no_reader_out(several: bool, disturbed: bool) -> None:
    """A hold was downgraded, and one more of its owner came and went. Of those who hold, none keeps
    readers out any more; but in the row that stands only after somebody has looked.
    """
    scene = Scene()
    client = scene.client()
    was_writer, writer = claims(0, 1, owner="ann")
    (reader,) = claims(2, mode=Mode.SHARED, waits=False)
    run(client.attempt(was_writer, 0.0))
    assert run(client.downgrade(was_writer))
    assert isinstance(run(client.attempt(writer, 0.0)), Granted)
    assert isinstance(run(client.attempt(reader, 0.0)), Busy)
    assert run(client.release(writer))
    swaps = _interrupted(scene) if disturbed else []
    if several:
        assert isinstance(run(client.attempt_all([reader])), list)
    else:
        assert isinstance(run(client.attempt(reader, 0.0)), Granted)
    assert len(swaps) == (2 if disturbed else 0)
    assert run(client.renew([was_writer, reader])) == [Renewal.HELD, Renewal.HELD]


def test_a_release_is_done_though_nobody_can_be_rung() -> None:
    scene = Scene()
    client = scene.client()

    async def broken(waiting: object) -> None:
        raise BackendUnavailable("nobody hears it")

    one, other = claims(0, 1)
    run(client.attempt(one, 0.0))
    run(client.attempt(other, 0.0))
    client._bells.ring = broken  # type: ignore[method-assign]
    assert run(client.release(one))


def test_who_gives_up_one_of_several_rings_the_next() -> None:
    scene = Scene()
    client = scene.client()
    reader, writer, other = claims(0, 1, 2)
    run(client.attempt(reader._replace(mode=Mode.SHARED), 0.0))
    run(client.attempt(other._replace(mode=Mode.SHARED), 0.0))
    run(client.attempt(writer, 0.0))
    run(client.attempt(writer, 0.0))
    assert isinstance(run(client.attempt(writer, 0.0)), Busy)  # without asking
    run(client.release(other._replace(mode=Mode.SHARED)))
    run(client.release(reader._replace(mode=Mode.SHARED)))  # its number is not the latest
    assert isinstance(run(client.attempt(writer, 0.0)), Granted)


def test_a_hold_that_has_run_out_is_not_found_again_while_others_wait() -> None:
    scene = Scene()
    one, other = claims(0, 1, ttl=2.0)
    client = scene.client()
    run(client.attempt(one, 0.0))
    run(scene.client().attempt(other, 0.0))
    scene.pass_time(2.0)
    assert isinstance(run(client.attempt(one._replace(waits=False), 0.0)), Busy)


def test_a_place_of_this_client_that_nobody_waits_in_is_passed_over() -> None:
    """An older state of the table may have one."""
    scene = Scene()
    client = scene.client()
    one, ghost, other = claims(0, 1, 2)
    run(client.attempt(one, 0.0))
    run(client.attempt(ghost, 0.0))
    older = dict(scene.place.store.rows)
    run(client.release(ghost))
    scene.place.store.rows.update(older)
    scene.pass_time(SILENCE + 1)
    run(client.release(one))
    assert isinstance(run(client.attempt(other, 0.0)), Granted)


def test_people_see_who_lives() -> None:
    scene = Scene()
    client = scene.client()
    one, other = claims(0, 1)
    run(client.attempt(one, 0.0))
    run(scene.client().attempt(other, 0.0))
    (shown,) = run(client.inspect("a:x"))
    assert len(shown.waiters) == 1
    scene.pass_time(SILENCE + 1)
    (shown,) = run(client.inspect("a:x"))
    assert not shown.waiters
    assert len(shown.holders) == 1


def test_a_list_has_all_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock_views, "PAGE", 2)
    scene = Scene()
    client = scene.client()
    for number in range(5):
        run(client.attempt(Claim(f"a:{number}", f"{number:032x}", 60.0), 0.0))
    assert sorted(each.name for each in run(client.inspect_all("a:"))) == [
        f"a:{number}" for number in range(5)
    ]
