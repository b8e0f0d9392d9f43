"""Every statement of the pages that promise something is shown by a test, or only explains."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contracts.promises import (
    FOLDER,
    Promise,
    blocks_of,
    exists,
    plain,
    promises_of,
    promising_pages,
    statements_of,
    table_of,
    uncovered,
)
from tests.contracts.sources import ROOT

read = pytest.mark.parametrize(
    "page",
    promising_pages(),
    ids=lambda page: page.relative_to(ROOT).as_posix(),
)


@read
def test_every_statement_is_listed(page: Path) -> None:
    missing = uncovered(page.read_text(), promises_of(page))
    assert not missing, f"list these in {table_of(page).relative_to(ROOT)}: {missing}"


@read
def test_every_excerpt_still_stands_in_the_page(page: Path) -> None:
    blocks = blocks_of(page.read_text())
    gone = [
        promise.says
        for promise in promises_of(page)
        if not any(plain(promise.says) in block for block in blocks)
    ]
    assert not gone, f"the page does not say this any more: {gone}"


@read
def test_every_promise_has_tests_that_exist(page: Path) -> None:
    promises = [promise for promise in promises_of(page) if promise.shown_by]
    missing = [test for promise in promises for test in promise.shown_by if not exists(test)]
    assert not missing


def test_no_table_is_left_of_a_page_that_is_gone() -> None:
    tables = {table_of(page) for page in promising_pages()}
    assert not set(FOLDER.rglob("*.toml")) - tables


PAGE = """
# A page

It holds. It is *never* shared
across lines; and [a link](elsewhere.md) too.

```python
print("not a statement.")
```

* one item
* another

| what | then |
|---|---|
| it ends | somebody is told |
"""


def test_what_counts_as_a_statement() -> None:
    assert statements_of(PAGE) == [
        "It holds.",
        "It is never shared across lines;",
        "and a link too.",
        "one item",
        "another",
        "it ends: somebody is told",
    ]


def test_an_excerpt_covers_the_statements_that_it_touches() -> None:
    listed = [Promise("*never* shared", ()), Promise("one item", ()), Promise("it ends: some", ())]
    assert uncovered(PAGE, listed) == ["It holds.", "and a link too.", "another"]


def test_a_test_that_does_not_exist_is_noticed() -> None:
    here = "tests/contracts/test_promises.py"
    assert exists(f"{here}::test_a_test_that_does_not_exist_is_noticed")
    assert not exists(f"{here}::test_that_nobody_wrote")
    assert not exists("tests/contracts/test_nowhere.py::test_it")
    suite = "src/locknut/testing/conformance/mutual_exclusion.py"
    assert exists(f"{suite}::MutualExclusion::test_with_inside_with")
    assert not exists(f"{suite}::test_with_inside_with")
