"""The recipe of the SQL engines keeps the contract, on the reference of their table."""

from __future__ import annotations

import pytest

from locknut.core.ports import Engine
from locknut.testing.conformance import Conformance
from tests.backends.sql.local_engine import LocalEngine, LocalPlace
from tests.conformance.selections import ESSENTIALS


class TestRecipe(Conformance):
    quick = ESSENTIALS

    @pytest.fixture
    def engine_url(self) -> str:
        self.place = LocalPlace()
        return "sql:local"

    def open_engine(self, url: str) -> Engine:
        return LocalEngine(self.place)
