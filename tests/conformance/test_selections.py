"""The two selections of the conformance suite are the whole of it, and no part is in both."""

from __future__ import annotations

from locknut.testing.conformance import Conformance
from tests.conformance.selections import AroundTheVerbs, EveryVerb


def test_together_they_are_the_whole_contract() -> None:
    selected = [*EveryVerb.__bases__, *AroundTheVerbs.__bases__]
    assert len(selected) == len(set(selected))
    assert set(selected) == set(Conformance.__bases__)
