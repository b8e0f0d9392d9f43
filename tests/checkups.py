"""What the tests of `doctor` share: the findings by their codes, each checked for its form."""

from __future__ import annotations

import asyncio
import re
import time
from functools import cache
from types import SimpleNamespace
from typing import Any

import locknut
from locknut import Finding, Severity, aio
from locknut.core.findings import PAGE
from tests.contracts.sources import ROOT

OK, WARN, FAIL, UNKNOWN = Severity


@cache
def headings() -> frozenset[str]:
    """The codes that the page explains."""
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    return frozenset(re.findall(r"^### ([a-z0-9-]+)$", text, re.MULTILINE))


def examine(url: Any, colour: str = "blocking", **options: Any) -> dict[str, Finding]:
    """All findings at this engine; a busy machine has time enough."""
    options.setdefault("timeout", 60)
    if colour == "blocking":
        with locknut.connect(url) as locks:
            return by_code(locks.doctor(**options))

    async def story() -> dict[str, Finding]:
        async with aio.connect(url) as locks:
            return by_code(await locks.doctor(**options))

    return asyncio.run(story())


def by_code(found: tuple[Finding, ...]) -> dict[str, Finding]:
    codes = [each.code for each in found]
    assert len(codes) == len(set(codes)), "one finding for each code"
    for each in found:
        assert each.code in headings(), "a code has its section on the page"
        assert each.page == f"{PAGE}#{each.code}"
        assert each.found[0].isupper() or each.found[0].isdigit() or "/" in each.found, each.found
        assert each.found.endswith("."), each.found
        assert bool(each.advice) == (each.severity in (WARN, FAIL)), each
    return {each.code: each for each in found}


def another_clock(ahead: float) -> SimpleNamespace:
    """In place of the module `time` in a checkup: this machine's clock is so far ahead."""
    return SimpleNamespace(time=lambda: time.time() + ahead)
