"""Every code of `doctor` has its section on the page, and every section is about a code."""

from __future__ import annotations

import ast
import re

from locknut.core.findings import PAGE
from tests.checkups import headings
from tests.contracts.sources import ROOT, sources

COMMON = {"reachable", "usable", "round-trip", "clock"}
"""The codes that belong to no engine: these do not begin with the name of one."""
CODE = re.compile(
    r"(?:redis|redlock|zookeeper|etcd|memcached|postgresql|mysql|sqlite|sql|file)(?:-[a-z0-9]+)+"
)


def codes() -> set[str]:
    """As they stand in the modules that examine an engine."""
    modules = [each for each in sources("core", "backends") if _examines(each.path.stem)]
    words = {
        node.value
        for source in modules
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    return {word for word in words if CODE.fullmatch(word)} | (COMMON & words)


def _examines(stem: str) -> bool:
    return stem in {"findings", "examining", "checkup"} or stem.endswith("_health")


def test_every_code_has_its_section() -> None:
    assert not codes() - headings()


def test_every_section_is_about_a_code() -> None:
    assert not headings() - codes()


def test_every_code_stands_under_its_engine() -> None:
    """So that a reader of the page finds an engine's checks together."""
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    for part in text.split("\n## ")[1:]:
        title = part.partition("\n")[0]
        found = re.findall(r"^### ([a-z0-9-]+)$", part, re.MULTILINE)
        engines = re.findall(r"`([a-z]+):`", title)
        if engines:
            assert all(code.startswith(tuple(engines)) for code in found), title
        elif found:
            assert set(found) == COMMON


def test_these_tests_can_fail() -> None:
    assert codes() > COMMON
    assert "redis-eviction" in codes() & headings()
    assert CODE.fullmatch("redis-py")
    assert not CODE.fullmatch("redis_version")
