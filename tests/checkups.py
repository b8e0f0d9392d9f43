"""What the tests of `doctor` share: the findings by their codes, each checked for its form."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import locknut
from locknut import Finding, Severity, aio
from locknut.core.findings import PAGE
from tests.contracts.sources import ROOT
from tests.servers.databases import Database

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


def mounted(script: str, folder: Path, place: str = "file://{}") -> dict[str, dict[str, str]]:
    """The findings of `locknut doctor` in a file system that this shell script mounts there."""
    command = f"{script}\nexec {sys.executable} -m locknut doctor --json {place.format(folder)}"
    done = subprocess.run(
        ["unshare", "--map-root-user", "--mount", "sh", "-ec", command],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    if "unshare failed" in done.stderr or "Operation not permitted" in done.stderr:
        pytest.skip("needs root: this machine lets no user mount")
    assert done.stdout, done.stderr
    return {each["code"]: each for each in json.loads(done.stdout)["findings"]}


def in_layers(folder: Path, place: str = "file://{}") -> dict[str, dict[str, str]]:
    """The same in a file system like that of a container: layers, of which the last one is its."""
    for name in ("lower", "upper", "work", "whole"):
        (folder / name).mkdir()
    layers = f"lowerdir={folder}/lower,upperdir={folder}/upper,workdir={folder}/work"
    whole = folder / "whole"
    return mounted(f"mount -t overlay overlay -o {layers} {whole}", whole, place)


def user_without(right: str, database: Database, table: str = "locknut_locks") -> str:
    """The URL of a user who has all other rights on the table of locks."""
    with locknut.connect(database.url) as locks:
        locks.ping(timeout=60)  # makes the table
    rights = {"SELECT", "INSERT", "UPDATE", "DELETE"} - {right}
    return database.login("few", f"{', '.join(sorted(rights))} ON {table}").url
