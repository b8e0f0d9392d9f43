"""How the tests are handed out to workers: everything once, the longest first."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.contracts.sources import ROOT
from tests.scheduling import APART, BY_DATABASE, CROWDS, SECONDS, longest_first, part


def items(*nodeids: str) -> list[Any]:
    return [SimpleNamespace(nodeid=nodeid) for nodeid in nodeids]


def test_a_file_is_one_part_and_a_conformance_suite_is_two() -> None:
    assert part("tests/api/test_urls.py::test_it[asyncio]") == "tests/api/test_urls.py"
    file = "tests/conformance/test_redis.py"
    blocking = part(f"{file}::TestRedis::test_it[blocking]")
    assert part(f"{file}::TestRedis::test_on_asyncio[blocking]") == blocking
    assert part(f"{file}::test_what_it_declares") == file
    others = (f"{file}::TestRedis::test_it[x-asyncio]", f"{file}::TestOther::test_it[blocking]")
    assert len({file, blocking, *map(part, others)}) == 4


def test_tests_that_share_nothing_are_parts_of_their_own() -> None:
    for file in APART:
        assert part(f"{file}::test_1[a b]") != part(f"{file}::test_1[a c]")


def test_what_is_about_one_database_is_one_part() -> None:
    for file in BY_DATABASE:
        assert part(f"{file}::test_1[mysql-plain]") == part(f"{file}::test_2[mysql]")
        assert part(f"{file}::test_1[mysql-plain]") != part(f"{file}::test_1[mariadb-plain]")
        assert part(f"{file}::test_3") not in {part(f"{file}::test_1[mysql]"), file}


def test_all_crowds_are_one_part_whatever_file_they_are_in() -> None:
    """Two of them met on a machine of two cores, and each failed for want of time."""
    crowds = [f"{file}::{test}[{kind}]" for file, test in CROWDS.items() for kind in ("a", "b")]
    assert len({part(crowd) for crowd in crowds}) == 1
    file = next(iter(CROWDS))
    assert part(f"{file}::test_another") == file
    given = items(*(f"{file}::test_{number}" for number in range(99)), *crowds)
    longest_first(given)
    assert sorted(item.nodeid for item in given[: len(crowds)]) == sorted(crowds)


def test_every_crowd_that_is_named_exists() -> None:
    assert all(f"def {test}(" in (ROOT / file).read_text() for file, test in CROWDS.items())


def test_the_longest_begin_first() -> None:
    known = next(iter(SECONDS))
    given = items("a.py::test_1", "b.py::test_1", "a.py::test_2", "b.py::test_2", "b.py::test_3")
    given += items(f"{known}::test_1")
    longest_first(given)
    assert [item.nodeid[:4] for item in given] == [known[:4], *["b.py"] * 3, *["a.py"] * 2]


def test_every_file_that_is_named_exists() -> None:
    assert not [file for file in (*SECONDS, *APART, *BY_DATABASE) if not (ROOT / file).exists()]


CONFTEST = """
def pytest_xdist_make_scheduler(config, log):
    from tests.scheduling import ByPart
    return ByPart(config, log)
"""
DIES = "import os, time\ndef test_dies(): time.sleep({}); os._exit(9)\ndef test_goes_on(): ..."


@pytest.mark.parametrize("after", [0, 2], ids=["first", "last"])
def test_a_worker_that_dies_fails_one_test(tmp_path: Path, after: int) -> None:
    """And is not followed into death by others, nor waited for."""
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_0.py").write_text(DIES.format(after))
    for number in range(1, 5):
        (tmp_path / f"test_{number}.py").write_text("def test_a(): ...\ndef test_b(): ...\n")
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadfile", "."]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, check=False, timeout=100
    )
    assert b"1 failed, 9 passed" in done.stdout, done.stdout
