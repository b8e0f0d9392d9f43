"""The Python in the documentation, taken out of its Markdown to be run.

A fenced block starts with ```python. Words after it say how it is run:

    ```python                   alone, in an empty folder, with locks of its own
    ```python continued         after the blocks of this page before it, in the same program
    ```python redis             needs that engine: run by its tests, not by the contract
    ```python celery            needs that framework: run where it is installed
    ```python fragment          a piece that cannot run by itself: only compiled
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from tests.contracts.sources import ROOT

ENGINES = {"etcd", "memcached", "postgresql", "redis", "redlock", "sqlite", "zookeeper"}
KNOWN = ENGINES | {"continued", "fragment"}
_BLOCK = re.compile(r"^( *)```python([^\n]*)\n(.*?)^\1```\s*$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """One block of a page."""

    page: Path
    line: int
    words: frozenset[str]
    code: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def engines(self) -> frozenset[str]:
        return self.words & ENGINES


def pages() -> list[Path]:
    """Every page a reader sees."""
    return [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/**/*.md")),
            *sorted(ROOT.glob("examples/*.md"))]  # fmt: skip


def blocks_of(page: Path) -> list[Block]:
    """The blocks of a page; one that continues carries the ones before it in its code."""
    found: list[Block] = []
    text = page.read_text()
    for match in _BLOCK.finditer(text):
        indent, info, body = match.groups()
        code = re.sub(rf"^{indent}", "", body, flags=re.MULTILINE)
        words = frozenset(info.split())
        if unknown := words - KNOWN:
            raise ValueError(f"{page.name}: ```python {' '.join(unknown)} means nothing here")
        if "continued" in words:
            code = f"{found[-1].code}\n{code}"
        found.append(Block(page, text.count("\n", 0, match.start()) + 1, words, code))
    return found


def blocks(*engines: str) -> list[Block]:
    """All blocks that need exactly these engines."""
    every = [block for page in pages() for block in blocks_of(page)]
    return [block for block in every if block.engines == set(engines)]
