"""The snippets of the pages are short, and as the tests use them."""

from __future__ import annotations

import pytest

from tests.contracts.documentation import Block, blocks_of
from tests.contracts.sources import ROOT
from tests.contrib.alembic.projects import AFTER

PAGES = ("one-pod-migrates", "django", "sqlalchemy")
MOST = 15
"""Lines to copy for one use; an empty one is none."""


def snippets() -> list[Block]:
    return [each for page in PAGES for each in blocks_of(ROOT / "docs" / f"{page}.md")]


@pytest.mark.parametrize("block", snippets(), ids=str)
def test_a_snippet_is_short(block: Block) -> None:
    assert len([line for line in block.code.splitlines() if line.strip()]) <= MOST


def test_the_page_has_the_line_that_the_tests_put_into_env() -> None:
    (block,) = [each for each in snippets() if "env" in each.code or "migration_lock" in each.code]
    assert AFTER in block.code.replace('timeout="10m"', "")
