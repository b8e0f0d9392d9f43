"""The worked engine of docs/extending.md keeps the contract, in both colours."""

from __future__ import annotations

import sys
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from locknut.testing.conformance import Conformance
from locknut.urls import parse
from tests.conformance.selections import ESSENTIALS
from tests.contracts.sources import ROOT

EXAMPLE = ROOT / "examples" / "sqlite_engine"


@pytest.fixture(scope="module", autouse=True)
def _installed() -> Any:
    """As if the example's package were installed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EXAMPLE)
        yield
    sys.modules.pop("locknut_sqlite", None)


class TestSqliteExample(Conformance):
    quick = ESSENTIALS

    @pytest.fixture
    def engine_url(self, tmp_path: Path) -> str:
        return f"sqlite-example://{tmp_path}/locks.db"

    def open_engine(self, url: str) -> Any:
        return import_module("locknut_sqlite").open_engine(parse(url))


def test_it_is_registered_as_the_page_says() -> None:
    told = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]["entry-points"]
    module, _, name = told["locknut.backends"]["sqlite-example"].partition(":")
    assert callable(getattr(import_module(module), name))


def test_it_is_no_longer_than_the_page_says() -> None:
    assert len((EXAMPLE / "locknut_sqlite.py").read_text().splitlines()) <= 150
