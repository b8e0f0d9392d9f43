"""A variant of an engine runs the whole contract: a part in `make test`, the rest in the other."""

from __future__ import annotations

import pytest

from locknut.testing.conformance import Conformance
from locknut.testing.conformance.lock_names import LockNames
from locknut.testing.conformance.pings import Pings
from tests.conformance.selections import ESSENTIALS, EVERY_VERB


@pytest.mark.parametrize("selection", [ESSENTIALS, EVERY_VERB])
def test_what_is_quick_is_a_part_of_the_contract(selection: tuple[type, ...]) -> None:
    assert set(selection) < set(Conformance.__bases__)


class TestMemoryAgain(LockNames, Pings):
    url = "memory:again"
    quick = (LockNames,)

    @pytest.fixture(autouse=True)
    def _marked(self, request: pytest.FixtureRequest) -> None:
        """What is not quick is slow, and nothing else is."""
        quick = request.node.originalname in vars(LockNames)
        assert quick != any(request.node.iter_markers("slow"))
