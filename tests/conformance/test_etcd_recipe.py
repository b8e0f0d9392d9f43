"""The recipe of the etcd engine keeps the contract, on the reference of what etcd does."""

from __future__ import annotations

import pytest

from locknut.core.ports import Engine
from locknut.testing.conformance import Conformance
from tests.backends.etcd.local_engine import LocalCluster, LocalEngine
from tests.conformance.selections import ESSENTIALS


class TestRecipe(Conformance):
    quick = ESSENTIALS

    @pytest.fixture
    def engine_url(self) -> str:
        self.cluster = LocalCluster()
        return "etcd:local"

    def open_engine(self, url: str) -> Engine:
        return LocalEngine(self.cluster)
