"""The tables of mutants fit the code of today: each text is found once, each list of tests exists.

Running them takes hours: `make mutants`.
"""

from __future__ import annotations

import re
import runpy
from collections import Counter

import pytest

from tests.mutants import ROOT, Mutant, load
from tests.parsing import parse

MUTANTS = load()
ENOUGH = 350
PARTS = {
    *("core", "faces", "runtimes", "guards", "cli", "dashboard", "tasks", "testing", "web"),
    *("barriers", "compat"),
    *("memory", "file", "redis", "lua", "redlock", "zookeeper", "sql", "etcd", "etcd_driver"),
    "memcached",
}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.id)
def test_a_mutant_can_be_put_in(mutant: Mutant) -> None:
    assert mutant.found_in(ROOT) == 1, f"{mutant.file} does not have this text once"
    text = (ROOT / mutant.file).read_text(encoding="utf-8")
    changed = mutant.applied_to(text)
    assert changed != text
    if mutant.file.endswith(".py"):
        parse(changed)
    assert mutant.tests
    assert not [each for each in mutant.tests if not (ROOT / each).exists()]


def test_there_are_enough_in_every_part() -> None:
    assert len(MUTANTS) >= ENOUGH
    assert not [each for each, count in Counter(each.id for each in MUTANTS).items() if count > 1]
    parts = Counter(each.part for each in MUTANTS)
    assert parts.keys() == PARTS
    assert min(parts.values()) >= 10


def test_no_two_are_the_same() -> None:
    changes = Counter((each.file, each.before, each.after) for each in MUTANTS)
    assert [change for change, count in changes.items() if count > 1] == []


def test_the_runner_does_not_take_a_log_for_a_failure() -> None:
    first_failed = runpy.run_path(str(ROOT / "scripts/mutants.py"))["first_failed"]
    said = "ERROR    locknut:events.py:52 lost 'x'\nFAILED tests/a.py::test_b[in turn] - assert 0\n"
    assert first_failed(said) == "tests/a.py::test_b[in turn]"
    assert first_failed("1 passed in 2 s") is None


def test_what_is_broken_is_said_in_a_sentence() -> None:
    assert not [each.id for each in MUTANTS if not re.match(r"\S+( \S+){2,}", each.breaks)]
