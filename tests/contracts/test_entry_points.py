"""Every engine, ours too, is found by its entry point, and so are drivers' own clients."""

from __future__ import annotations

import importlib.metadata
import tomllib
from importlib import import_module
from typing import Any

import pytest

import locknut
from locknut import urls
from locknut.backends.memory import MemoryEngine, open_engine
from locknut.errors import ConfigurationError
from tests.contracts.sources import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
OURS = {"locknut.backends": urls._ENGINES, "locknut.clients": urls._CLIENTS}


@pytest.mark.parametrize("group", OURS)
def test_the_table_in_the_code_is_that_of_the_package(group: str) -> None:
    """It stands in the code as well because a search through all installed packages is slow."""
    assert OURS[group] == PROJECT[group]


@pytest.mark.parametrize("target", sorted({*urls._ENGINES.values(), *urls._CLIENTS.values()}))
def test_what_they_lead_to_is_there(target: str) -> None:
    module, _, name = target.partition(":")
    assert callable(getattr(import_module(module), name))


class Driver:
    """A client of somebody else's driver."""


def from_client(client: Driver) -> MemoryEngine:
    return MemoryEngine("of a driver")


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another package brings a scheme, and takes clients of its driver."""
    make = importlib.metadata.EntryPoint
    entries = importlib.metadata.EntryPoints(
        [
            make("mystore", f"{open_engine.__module__}:open_engine", "locknut.backends"),
            make(__name__.partition(".")[0], "mystore:from_client", "locknut.clients"),
        ]
    )
    load = make.load

    def loaded(self: Any) -> Any:
        return from_client if self.value == "mystore:from_client" else load(self)

    monkeypatch.setattr(make, "load", loaded)
    monkeypatch.setattr(importlib.metadata, "entry_points", entries.select)


@pytest.mark.usefixtures("installed")
def test_another_packages_scheme_is_found() -> None:
    with locknut.connect("mystore:shop") as locks, locks.lock("x"):
        assert locks.backend == "memory"


@pytest.mark.usefixtures("installed")
def test_another_packages_clients_are_found() -> None:
    with locknut.connect(Driver()) as locks:
        assert locks.place == "memory:of a driver"


@pytest.mark.usefixtures("installed")
def test_a_wrong_scheme_is_answered_with_theirs_too() -> None:
    with pytest.raises(ConfigurationError, match="mystore"):
        locknut.connect("mystor:shop")
