"""What the keeper looks at grows with the holds that are new, not with all that there are.

Every batch of renewals looks for new holds. If it went through all of them, renewing them would
cost the square of their number.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import locknut
from locknut.core.holding import NEW
from locknut.core.timetable import FEW, newest
from tests.core.test_timetable_rest import a_hold

SEEN = 5000


class Counted(dict[str, Any]):
    """Counts how many of its values anybody has looked at."""

    looked_at = 0

    def values(self) -> Any:
        return _Values(self)


class _Values:
    def __init__(self, holds: Counted) -> None:
        self._holds = holds

    def __iter__(self) -> Iterator[Any]:
        return self._each(dict.values(self._holds))

    def __reversed__(self) -> Iterator[Any]:
        return self._each(reversed(dict.values(self._holds)))

    def _each(self, values: Any) -> Iterator[Any]:
        for value in values:
            self._holds.looked_at += 1
            yield value


@pytest.mark.parametrize("new", [0, 1, FEW - 1, FEW, 3 * FEW])
def test_a_look_for_new_holds_leaves_the_old_ones_alone(new: int) -> None:
    with locknut.connect("memory:") as locks:
        client = locks._client
        leases = [locks.lock(f"old {each}", ttl=600).acquire() for each in range(SEEN)]
        with client.guard:
            client.schedule.take_in()
        leases += [locks.lock(f"new {each}", ttl=600).acquire() for each in range(new)]
        holds = client.holds
        client.holds = counted = Counted(holds)
        with client.guard:
            client.schedule.take_in()
        client.holds = holds

        assert counted.looked_at <= 4 * new + FEW
        assert not [hold for hold in holds.values() if hold.bucket is NEW]
        assert all(lease is not None and lease.held for lease in leases)


@pytest.mark.parametrize("new", [0, 1, FEW, 3 * FEW])
def test_the_new_ones_are_all_that_stand_at_the_end(new: int) -> None:
    old, fresh = [a_hold() for _ in range(FEW)], [a_hold() for _ in range(new)]
    for hold in old:
        hold.bucket = None
    holds = {str(number): hold for number, hold in enumerate([*old, *fresh])}

    assert newest(holds) == fresh[::-1]
