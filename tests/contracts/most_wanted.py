"""What people come for: README's table of uses, and what its links lead to, as it stands there."""

from __future__ import annotations

import re
from typing import NamedTuple

from tests.contracts.sources import ROOT

README = (ROOT / "README.md").read_text()
_FENCE = re.compile(r"^```[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


class Place(NamedTuple):
    """A section of a page."""

    page: str
    anchor: str

    def __str__(self) -> str:
        return f"{self.page}#{self.anchor}"


def uses() -> dict[Place, str]:
    """Each place that the table leads to, and what is wanted there."""
    table = README.partition("## What people use it for")[2].partition("\n## ")[0]
    rows = [line.strip("|").split(" | ") for line in table.splitlines() if line.startswith("|")][2:]
    links = [(row[0].strip(), re.findall(r"\]\(([^)#]+)#([^)]+)\)", row[1])) for row in rows]
    return {Place(page, anchor): want for want, found in links for page, anchor in found}


def slug(heading: str) -> str:
    """As GitHub and the site make an anchor of it."""
    kept = re.sub(r"[^\w\- ]", "", heading.lower().replace("`", ""))
    return kept.strip().replace(" ", "-")


def section(place: Place) -> str:
    """From the heading on, to the next one; what looks like a heading in code is none."""
    text = (ROOT / place.page).read_text()
    bare = _FENCE.sub(lambda block: re.sub("(?m)^#", "-", block.group()), text)
    starts = [(found.start(), slug(found.group(1))) for found in _HEADING.finditer(bare)]
    ends = [*(start for start, _ in starts[1:]), len(text)]
    (found,) = [
        text[start:end]
        for (start, name), end in zip(starts, ends, strict=True)
        if name == place.anchor
    ]
    return found


def copied(place: Place) -> str:
    """What is to be copied there: its first block of code."""
    first = _FENCE.search(section(place))
    assert first is not None, f"{place} has nothing to copy"
    return first.group(1)
