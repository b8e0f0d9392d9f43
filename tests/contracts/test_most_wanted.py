"""What people come for is found from the README by one click, is short enough to copy, and bears
that two of its processes are killed in the middle.
"""

from __future__ import annotations

import pytest

from tests.contracts.most_wanted import Place, copied, uses
from tests.contracts.promises import exists
from tests.uses.killed_uses import HERE, SHOWN_BY

MOST_LINES = 15


def test_ten_uses_are_in_the_table() -> None:
    assert len(set(uses().values())) >= 10


@pytest.mark.parametrize("place", uses(), ids=str)
def test_what_is_wanted_is_short_enough_to_copy(place: Place) -> None:
    assert len([line for line in copied(place).splitlines() if line.strip()]) <= MOST_LINES


def test_every_use_is_tried_with_two_processes_killed_in_the_middle() -> None:
    assert {*HERE, *SHOWN_BY} == {*uses()}
    assert not {*HERE} & {*SHOWN_BY}


@pytest.mark.parametrize("test", SHOWN_BY.values())
def test_the_tests_that_show_it_elsewhere_are_there(test: str) -> None:
    assert exists(test)
