"""The recipe of the SQL engines keeps the contract, on the reference of their table."""

from __future__ import annotations

import pytest

from locknut.core.ports import Engine
from tests.backends.sql.local_engine import LocalEngine, LocalPlace
from tests.conformance.selections import AroundTheVerbs, EveryVerb


class OnTheReference:
    @pytest.fixture
    def engine_url(self) -> str:
        self.place = LocalPlace()
        return "sql:local"

    def open_engine(self, url: str) -> Engine:
        return LocalEngine(self.place)


class TestRecipe(OnTheReference, EveryVerb):
    pass


@pytest.mark.slow
class TestRecipeFurther(OnTheReference, AroundTheVerbs):
    pass
