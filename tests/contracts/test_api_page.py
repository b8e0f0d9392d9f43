"""The page that the site makes from the code leaves out no name that users reach."""

from __future__ import annotations

import importlib
import re

from tests.contracts.sources import ROOT
from tests.contracts.surface import MODULES

PAGE = (ROOT / "scripts" / "api_page.md").read_text()
NAMED = re.findall(r"^::: (\S+)$", PAGE, re.MULTILINE)


def test_every_public_name_is_on_the_page() -> None:
    errors = {*dir(importlib.import_module("locknut.errors"))}  # on the page as a whole
    reached = {
        f"{module}.{name}"
        for module in MODULES
        if not module.endswith("aio")  # where the same names are
        for name in importlib.import_module(module).__all__
        if not (module == "locknut" and name in errors)
    }
    assert len(reached) > 80
    assert not reached - {*NAMED}


def test_nothing_is_there_twice_or_does_not_exist() -> None:
    assert sorted(NAMED) == sorted({*NAMED})
    for name in NAMED:
        module, _, last = name.rpartition(".")
        if not module.startswith("locknut.contrib"):  # mkdocs fails on the others, too
            assert hasattr(importlib.import_module(module), last)
