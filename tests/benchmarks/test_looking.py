"""What a dashboard costs can be measured on every engine; how much it is, is not asserted here."""

from __future__ import annotations

import math

import pytest

from benchmarks.looking import cost
from benchmarks.scale_places import PLACES
from tests.conftest import ENGINES

LOCKS = 20


def _marked(engine: str) -> object:
    return pytest.param(engine, marks=[getattr(pytest.mark, engine)] if engine in ENGINES else [])


@pytest.mark.slow
@pytest.mark.parametrize("engine", [_marked(each) for each in PLACES if each != "memory"])
def test_all_locks_are_looked_at_and_the_cost_is_a_number(engine: str) -> None:
    told = cost(engine, LOCKS, 1.0)
    assert told["locks"] == LOCKS
    assert told["listings"] >= 1
    assert all(math.isfinite(each) for each in told.values())
