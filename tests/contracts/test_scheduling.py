"""How the tests are handed out to workers: everything once, the longest first."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tests.contracts.sources import ROOT
from tests.scheduling import SECONDS, longest_first, part


def items(*nodeids: str) -> list[Any]:
    return [SimpleNamespace(nodeid=nodeid) for nodeid in nodeids]


def test_a_file_is_one_part_and_a_conformance_suite_is_two() -> None:
    assert part("tests/api/test_urls.py::test_it[asyncio]") == "tests/api/test_urls.py"
    suite = "tests/conformance/test_redis.py"
    assert part(f"{suite}::TestRedis::test_it[blocking]") == suite
    assert part(f"{suite}::TestRedis::test_it[x-asyncio]") != suite
    assert part(f"{suite}::TestRedis::test_on_asyncio[blocking]") == suite


def test_the_longest_begin_first() -> None:
    known = next(iter(SECONDS))
    given = items("a.py::test_1", "b.py::test_1", "a.py::test_2", "b.py::test_2", "b.py::test_3")
    given += items(f"{known}::test_1")
    longest_first(given)
    assert [item.nodeid[:4] for item in given] == [known[:4], *["b.py"] * 3, *["a.py"] * 2]


def test_every_file_that_is_named_exists() -> None:
    assert not [file for file in SECONDS if not (ROOT / file).exists()]
