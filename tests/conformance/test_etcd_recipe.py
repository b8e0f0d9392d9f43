"""The recipe of the etcd engine keeps the contract, on the reference of what etcd does."""

from __future__ import annotations

import pytest

from locknut.core.ports import Engine
from tests.backends.etcd.local_engine import LocalCluster, LocalEngine
from tests.conformance.selections import AroundTheVerbs, EveryVerb


class OnTheReference:
    @pytest.fixture
    def engine_url(self) -> str:
        self.cluster = LocalCluster()
        return "etcd:local"

    def open_engine(self, url: str) -> Engine:
        return LocalEngine(self.cluster)


class TestRecipe(OnTheReference, EveryVerb):
    pass


@pytest.mark.slow
class TestRecipeFurther(OnTheReference, AroundTheVerbs):
    pass
