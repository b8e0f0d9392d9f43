"""Which slot a start counts for: arithmetic, and what clocks may do to it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from locknut.faces import slots
from locknut.faces.slots import slot_of
from tests.uses.clock_on_the_wall import NOON

MINUTES = st.integers(0, 10**7)
PERS = st.sampled_from([120, 300, 900, 3600, 86400, 7 * 86400])
OFF = st.floats(-29.9, 29.9)


@given(MINUTES, PERS, OFF, OFF)
def test_clocks_may_differ_by_half_a_minute_at_the_starts_of_cron(
    minute: int, per: int, one: float, other: float
) -> None:
    """Wherever in its slot a job starts. A slot that began at its edge would split these."""
    start = NOON + minute * 60
    assert slot_of(None, per, 0, start + one) == slot_of(None, per, 0, start + other)


@given(st.floats(0, 4e9), st.floats(0.05, 1e7))
def test_every_moment_has_one_slot(now: float, per: float) -> None:
    slot = slot_of(None, per, 0, now)
    early = min(30, per / 4)
    assert slot.at - early - 1e-3 <= now < slot.at + per - early + 1e-3
    assert now < slot.too_late_at


@given(st.floats(1, 1e6), st.floats(-1e9, 1e9))
def test_a_slot_is_remembered_longer_than_anybody_may_come_for_it(per: float, off: float) -> None:
    slot = slot_of(None, per, 0, NOON)
    assert slot.at + slot.kept - slot.too_late_at >= min(max(per, 60), 86400) / 2 - 1e-3
    left = slot.left(NOON + off, longest=1e8)
    assert slots.spare(per) <= left <= slot.kept + per, "however wrong the clock has become"
    assert slot.left(slot.at, longest=1e8) == pytest.approx(slot.kept)
    assert slot_of(None, per, 1e7, NOON).kept == 1e7


def test_a_slot_has_a_name_that_people_can_read() -> None:
    assert slot_of(None, 900, 0, NOON + 100).key("job") == "job@2027-01-15T08:00:00Z"
    assert slot_of(NOON + 0.5, 900, 0, NOON).key("job") == "job@2027-01-15T08:00:00.500000Z"


@pytest.mark.parametrize(
    "at",
    [
        NOON,
        int(NOON),
        str(NOON),
        datetime.fromtimestamp(NOON, UTC),
        datetime.fromtimestamp(NOON),  # noqa: DTZ006  # local time, as all of Python takes it
        "2027-01-15T08:00Z",
        "2027-01-15 09:00:00+01:00",
        str(datetime.fromtimestamp(NOON, UTC)),
    ],
)
def test_a_scheduled_time_may_be_written_in_many_ways(at: slots.At) -> None:
    assert slots.moment(at) == NOON


def test_a_date_is_its_midnight_here() -> None:
    midnight = slots.moment("2027-01-15")
    assert datetime.fromtimestamp(midnight) == datetime(2027, 1, 15)  # noqa: DTZ001, DTZ006  # local
    day = timedelta(days=1).total_seconds()
    assert slot_of("2027-01-15", day, 0, midnight + day - 1).too_late_at > midnight + day
