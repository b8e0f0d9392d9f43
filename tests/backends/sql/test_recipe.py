"""What each verb makes of a lock's state, and what the row says of it afterwards: pure."""

from __future__ import annotations

import json

import pytest

from locknut.backends.sql import hold_records, lock_state, recipe
from locknut.backends.sql.hold_records import HoldRecord, number_of
from locknut.backends.sql.lock_state import LockState, Place
from locknut.backends.sql.row_changes import key_of
from locknut.backends.sql.table_port import RAW_STEP, US, Row, Seen
from locknut.core.values import Broken, Claim, Granted, Mode, Renewal
from tests.backends.sql.scene import claims

NOW = 1_800_000_000 * US
PLACE = Place("client", "host", 7)


def _state(*entered: Claim, now: int = NOW) -> LockState:
    state = LockState("a:x", now)
    for claim in entered:
        state.enter(claim, PLACE)
    return state


def _again(state: LockState, now: int | None = None) -> LockState:
    """What a reader finds after it was written."""
    row = lock_state.written(state, 1)
    return lock_state.read("a:x", row, state.now if now is None else now)


def _waiting(state: LockState, claim: Claim, joined: int = NOW) -> None:
    facts = lock_state.facts_of(claim, "client")
    row = lock_state.written(state, 1)
    row = row._replace(line=f"{row.line}{claim.id} {joined} {facts}\n")
    state.line = lock_state.read("a:x", row, state.now).line


def test_a_number_is_the_time_but_never_goes_back() -> None:
    (one,) = claims(1)
    state = _state()
    assert state.enter(one, PLACE).raw == NOW // RAW_STEP
    state.holders.clear()
    state.fence = NOW  # of a clock that was set back since
    assert state.enter(one, PLACE).raw == NOW + 1


def test_a_fellow_shares_the_number_of_its_owner() -> None:
    one, other = claims(1, 2, owner="ann")
    state = _state(one)
    state.now += US
    assert recipe.enter(other, PLACE)(state).answer == Granted(NOW // RAW_STEP)
    assert state.fence == NOW // RAW_STEP  # nobody was given another one


def test_a_claim_that_asks_again_finds_its_hold_with_its_full_ttl() -> None:
    (one,) = claims(1)
    state = _state(one)
    state.now += 10 * US
    outcome = recipe.enter(one, PLACE)(state)
    assert (outcome.answer, outcome.changed) == (Granted(NOW // RAW_STEP), True)
    assert state.holders[one.id].expires == NOW + 70 * US


def test_a_ttl_is_rounded_up() -> None:
    assert lock_state.microseconds(Claim("a:x", "1", 0.0000001)) == 1


@pytest.mark.parametrize("shared", [False, True])
def test_what_has_run_out_is_not_there(shared: bool) -> None:
    mode = Mode.SHARED if shared else Mode.EXCLUSIVE
    holders = claims(1, 2, mode=mode) if shared else claims(1, mode=mode)
    state = _state(*holders)
    state.bury("dead", 60.0)
    state.notes["broken"] = "why", NOW + 60 * US
    over = _again(state, NOW + 60 * US)
    assert not over.holders
    assert over.over == [claim.id for claim in holders]
    assert not over.graves
    assert not over.notes
    there = _again(state, NOW + 60 * US - 1)
    assert len(there.holders) == len(holders)
    assert there.graves == {"dead": NOW + 60 * US}
    assert there.notes == {"broken": ("why", NOW + 60 * US)}


def test_a_tombstone_keeps_its_claim_out_of_everything() -> None:
    one, other = claims(1, 2)
    state = _state()
    assert recipe.release(one, outcome_unknown=True)(state).changed
    state = _again(state)
    assert recipe.enter(one, PLACE)(state).answer is None
    assert isinstance(recipe.enter(other, PLACE)(state).answer, Granted)
    state = _state(other)
    state.bury(one.id, 60.0)
    assert recipe.attach(other, one, PLACE)(state).answer is None


def test_a_tombstone_lasts_as_long_as_a_sending_and_as_the_hold() -> None:
    state = _state()
    recipe.release(Claim("a:x", "1", 0.1), outcome_unknown=True)(state)
    recipe.release(Claim("a:x", "2", 90.0), outcome_unknown=True)(state)
    assert state.graves == {"1": NOW + 60 * US, "2": NOW + 90 * US}


def test_a_release_takes_hold_and_place_and_calls_the_next() -> None:
    one, other, third = claims(1, 2, 3)
    state = _state(one)
    _waiting(state, other)
    _waiting(state, third)
    outcome = recipe.release(other, outcome_unknown=False)(state)
    assert (outcome.answer, outcome.changed, outcome.ring) == (False, True, ())
    assert list(state.line) == [third.id]
    outcome = recipe.release(one, outcome_unknown=False)(state)
    assert (outcome.answer, outcome.changed) == (True, True)
    assert [each.claim.id for each in outcome.ring] == [third.id]
    assert not recipe.release(one, outcome_unknown=False)(state).changed


def test_nobody_in_line_is_passed_over() -> None:
    one, other = claims(1, 2)
    state = _state()
    _waiting(state, other)
    assert recipe.enter(one, PLACE)(state) == recipe.Outcome(None, changed=False)
    assert isinstance(recipe.enter(other, PLACE)(state).answer, Granted)
    assert not state.line


def test_a_reader_that_entered_calls_the_readers_behind_it() -> None:
    one, other = claims(1, 2, mode=Mode.SHARED)
    state = _state()
    _waiting(state, one)
    _waiting(state, other)
    outcome = recipe.enter(one, PLACE)(state)
    assert [each.claim.id for each in outcome.ring] == [other.id]


def test_a_renewal_revives_nothing_and_tells_who_broke_it() -> None:
    (one,) = claims(1)
    state = _state(one)
    assert recipe.renew(one)(_again(state)).answer is Renewal.HELD
    assert recipe.renew(one)(_again(state, NOW + 60 * US)) == recipe.Outcome(
        Renewal.LOST, changed=False
    )
    recipe.break_hold(None, "stuck", permits=False)(state)
    state = _again(state)
    assert recipe.renew(one)(state).answer == Broken("stuck")


def test_only_the_hold_with_that_number_is_broken() -> None:
    one, other = claims(1, 2, mode=Mode.SHARED)
    state = _state(one)
    state.now += US
    raw = state.enter(other, PLACE).raw
    (waits,) = claims(3)
    _waiting(state, waits)
    assert recipe.break_hold(1, "", permits=False)(state).answer is None
    outcome = recipe.break_hold(raw, "", permits=False)(state)
    assert outcome.answer is not None
    assert [each.since for each in outcome.answer.holders] == [raw * RAW_STEP / US]
    assert outcome.answer.waiters == ()
    assert list(state.holders) == [one.id]
    assert not state.notes
    outcome = recipe.break_hold(None, "", permits=False)(state)
    assert [each.claim.id for each in outcome.ring] == [waits.id]


def test_a_downgrade_lets_readers_in_and_counts_once() -> None:
    one, other = claims(1, 2)
    state = _state(one)
    _waiting(state, other._replace(mode=Mode.SHARED))
    outcome = recipe.downgrade(one)(state)
    assert (outcome.answer, outcome.changed) == (True, True)
    assert [each.claim.id for each in outcome.ring] == [other.id]
    assert recipe.downgrade(one)(_again(state)) == recipe.Outcome(True, changed=False)
    assert recipe.downgrade(other)(state) == recipe.Outcome(False, changed=False)


def test_a_detached_hold_stands_where_no_late_statement_finds_it() -> None:
    (one,) = claims(1)
    state = _state(one)
    assert recipe.detach(one, 90.0)(state).answer
    row = lock_state.written(state, 1)
    assert row.holders.startswith(f"={one.id} ")
    assert number_of(Seen(row, NOW), one.id) is None
    held = _again(state).holders[one.id]
    assert (held.expires, held.detached) == (NOW + 90 * US, True)
    recipe.renew(one)(state)
    assert state.holders[one.id].expires == NOW + 90 * US


def test_of_two_that_attach_only_the_first_finds_it() -> None:
    detached, one, other = claims(1, 2, 3)
    state = _state(detached)
    recipe.detach(detached, 90.0)(state)
    raw = state.holders[detached.id].raw
    assert recipe.attach(detached, one, PLACE)(state).answer == Granted(raw)
    assert recipe.attach(detached, other, PLACE)(state).answer is None
    assert recipe.attach(detached, one, PLACE)(state).answer == Granted(raw)
    assert list(state.holders) == [one.id]
    assert state.holders[one.id].expires == NOW + 60 * US
    assert not state.holders[one.id].detached
    state.holders.clear()
    assert recipe.enter(detached, PLACE)(state).answer is None  # it came late


def test_an_attach_that_is_undone_leaves_the_hold_to_others_and_does_not_come_late() -> None:
    detached, one, other = claims(1, 2, 3)
    state = _state(detached)
    recipe.detach(detached, 90.0)(state)
    recipe.attach(detached, one, PLACE)(state)
    recipe.undo_attach(one, detached._replace(ttl=90.0))(state)
    held = state.holders[detached.id]
    assert (held.expires, held.detached) == (NOW + 90 * US, True)
    assert recipe.attach(detached, one, PLACE)(state).answer is None
    assert detached.id not in state.graves
    assert isinstance(recipe.attach(detached, other, PLACE)(state).answer, Granted)


def test_an_attach_that_is_undone_before_it_came_does_not_come() -> None:
    detached, one = claims(1, 2)
    state = _state(detached)
    recipe.undo_attach(one, detached)(state)
    assert recipe.attach(detached, one, PLACE)(state).answer is None


def test_a_row_says_who_may_come_in_beside_the_holders() -> None:
    reader, other = claims(1, 2, mode=Mode.SHARED)
    fellow, further = claims(3, 4, owner="ann \u00e4")
    companies = {
        "": (),
        "e": claims(5),
        "s": (reader, other),
        "p": claims(6, 7, mode=Mode.PERMIT),
        'e"ann \\u00e4"': (fellow, further),
        's"ann \\u00e4"': (fellow._replace(mode=Mode.SHARED),),
    }
    for company, holders in companies.items():
        assert lock_state.written(_state(*holders), 1).company == company
    mixed = _state(fellow)
    mixed.enter(further._replace(mode=Mode.SHARED), PLACE)
    assert lock_state.written(mixed, 1).company == 'e"ann \\u00e4"'
    mixed.enter(reader, PLACE)
    assert lock_state.written(mixed, 1).company == "e"


def test_a_row_says_until_when_it_matters() -> None:
    one, other = claims(1, 2, mode=Mode.SHARED)
    state = _state(one)
    state.now += US
    state.enter(other, PLACE)
    del state.holders[one.id]
    state.bury("dead", 90.0)
    state.notes["broken"] = "why", NOW + 60 * US
    row = lock_state.written(state, 1)
    assert row.expires == NOW + 61 * US
    assert row.others.startswith(f"{NOW + 91 * US} ")


def test_a_lock_and_a_semaphore_of_one_name_are_two_rows() -> None:
    one, permit = claims(1)[0], claims(2, mode=Mode.PERMIT)[0]
    assert key_of(one) == b"la:x"
    assert key_of(permit) == b"pa:x"


def test_rows_of_a_later_version_are_read_by_this_one() -> None:
    """It may say more of a holder or a waiter than we know of."""
    one, other = claims(1, 2)
    facts = json.dumps([*json.loads(lock_state.facts_of(one, "client")), "more"])
    records = [HoldRecord(each.id, NOW + US, 7, facts) for each in (one, other)]
    others = f"{NOW + US} " + json.dumps({"graves": {"4": NOW + US}, "more": {}})
    row = Row(7, 1, hold_records.written(records), "e", NOW + US, f"3 {NOW} {facts}\n", others)
    state = lock_state.read("a:x", row, NOW)
    assert set(state.holders) == {one.id, other.id}
    assert set(state.line) == {"3"}
    assert set(state.graves) == {"4"}
