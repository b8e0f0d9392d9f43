"""Every tag of a hazard that the tree names leads to docs/hazards.md, and from there to tests.

A tag is a letter and a number. In a comment it stands for a scenario, a rule and a test, which
would otherwise have to be told again at each line that keeps the rule.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.contracts.promises import exists
from tests.contracts.sources import ROOT
from tests.contracts.test_tree import text_of, tracked

PAGE = ROOT / "docs" / "hazards.md"
WRITTEN = {".py", ".lua", ".md", ".toml", ".tla"}
NOT_TAGS = {"HF1"}
"""What looks like a tag in brackets: the name of the lock file's layout."""
_TAG = re.compile(r"\b[SLU][1-9]\d?\b")
_BRACKETS = re.compile(
    r"(?<=\s)\(((?:[A-Z]-)?[A-Z]{1,3}\d{1,2}(?:, (?:[A-Z]-)?[A-Z]{1,3}\d{1,2})*)\)"
)
_ENTRY = re.compile(r'^### <a id="(\w+)"></a>(\w+): (.+)\n((?:(?!#).*\n)+)', re.MULTILINE)
_TEST = re.compile(r"`((?:tests|src)/[\w/]+\.py::[\w:]+)`")


class Hazard(NamedTuple):
    """One entry of the page."""

    anchor: str
    tag: str
    title: str
    text: str

    @property
    def shown_by(self) -> list[str]:
        return _TEST.findall(self.text)


def hazards(page: str) -> list[Hazard]:
    return [Hazard(*found) for found in _ENTRY.findall(page)]


def tags_in(text: str) -> Iterator[str]:
    """Those of the known kinds anywhere, and whatever stands in brackets as one."""
    yield from _TAG.findall(text)
    for inside in _BRACKETS.findall(text):
        yield from set(inside.split(", ")) - NOT_TAGS


@cache
def in_use() -> dict[str, set[str]]:
    """Where each tag of the tree is used."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in tracked():
        if path.suffix in WRITTEN and path not in (PAGE, Path(__file__)):
            for tag in tags_in(text_of(path)):
                found[tag].add(path.relative_to(ROOT).as_posix())
    return found


HAZARDS = hazards(PAGE.read_text())
each = pytest.mark.parametrize("hazard", HAZARDS, ids=lambda hazard: hazard.tag)


def test_every_tag_in_the_tree_is_explained() -> None:
    known = {hazard.tag for hazard in HAZARDS}
    missing = {tag: sorted(where) for tag, where in in_use().items() if tag not in known}
    assert not missing, f"explain these in {PAGE.relative_to(ROOT)}: {missing}"


def test_every_tag_is_explained_once_and_listed_under_its_theme() -> None:
    tags = [hazard.tag for hazard in HAZARDS]
    assert len(tags) == len(set(tags))
    text = PAGE.read_text()
    assert text.count("\n### ") == len(tags), "a heading that is no entry"
    listed = dict(re.findall(r"^\| \[(.+?)\]\(.*?\) \| (.+) \|$", text, re.MULTILINE))
    themes = text.split("\n## ")[1:]
    assert listed == {
        theme.partition("\n")[0]: " ".join(hazard.tag for hazard in hazards(theme))
        for theme in themes
    }


@each
def test_an_entry_is_in_use(hazard: Hazard) -> None:
    assert hazard.tag in in_use(), "no line of the tree needs it any more: take it out"


@each
def test_an_entry_tells_the_scenario_the_rule_and_tests_that_exist(hazard: Hazard) -> None:
    assert hazard.anchor == hazard.tag.lower()
    parts = re.findall(r"^\* \*\*(.+?)\*\*", hazard.text, re.MULTILINE)
    assert parts == ["Scenario.", "Rule.", "Shown by"]
    assert hazard.shown_by
    assert not [test for test in hazard.shown_by if not exists(test)]


def test_the_rules_can_fail() -> None:
    assert set(tags_in("old (S1), new (Q7, X-P2), a layout (HF1), call(A1), SHA1")) == {
        *("S1", "Q7", "X-P2"),
    }
    page = '### <a id="s1"></a>S1: it breaks\nText `tests/a.py::test_b`.\n\n## More\n'
    (found,) = hazards(page)
    assert (found.anchor, found.tag, found.title) == ("s1", "S1", "it breaks")
    assert found.shown_by == ["tests/a.py::test_b"]
    assert hazards("### S1: without an anchor\nText.\n") == []
