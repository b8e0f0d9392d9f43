"""Every word of the Makefile runs, with small numbers, in a copy of the tree.

The copy shares the environment and the servers of this tree by links, as `scripts/setup.py` and
`scripts/fetch_servers.py` allow.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.contracts.sources import ROOT

MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
WORDS = re.findall(r"^([a-z][a-z-]*):", MAKEFILE, re.MULTILINE)
LEFT_BEHIND = (
    *(".git", ".venv*", ".servers", ".hypothesis", "__pycache__", "build", "dist"),
    *("*.db-wal", "*.db-shm"),  # of mypy's cache: another test may be about to remove them
)

Make = Callable[..., str]
STARTS_A_PROGRAM = """
import subprocess, sys

def test_it(tmp_path):
    there = f"file://{tmp_path}"
    subprocess.run([sys.executable, "-m", "locknut", "wait", "x", "-u", there], check=True)
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of this tree."""
    copy = tmp_path / "tree"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(*LEFT_BEHIND), symlinks=True)
    for name in (".venv", ".venv-bench"):
        (copy / name).symlink_to(sys.prefix)
    (copy / ".servers").symlink_to(ROOT / ".servers")
    return copy


@pytest.fixture
def make(tree: Path) -> Make:
    """Runs `make WORD NAME=VALUE ...` in the copy, which must succeed; gives back what it said."""

    def run(word: str, *, succeeds: bool = True, **variables: str) -> str:
        ours = {"MAKEFLAGS", "MAKELEVEL", "MFLAGS", "ARGS", "PYTHONPATH"}
        clean = {name: value for name, value in os.environ.items() if name not in ours}
        done = subprocess.run(
            ["make", word, *(f"{name}={value}" for name, value in variables.items())],
            cwd=tree,
            env={
                **clean,
                "LOCKNUT_PYTHONS": "main",
                "LOCKNUT_TEST_WORKERS": "1",
                "PYTHONDONTWRITEBYTECODE": "1",
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=600,
        )
        assert done.returncode == 0 or not succeeds, done.stdout
        return done.stdout

    return run


pytestmark = pytest.mark.timeout(600)


def test_help(make: Make) -> None:
    listed = re.findall(r"^  make ([a-z-]+) +\S", make("help"), re.MULTILINE)
    assert sorted(listed) == sorted(WORDS)


def test_setup(make: Make) -> None:
    make("setup")


def test_servers(make: Make) -> None:
    make("servers")


@pytest.mark.slow
def test_demo(make: Make) -> None:
    make("demo")


@pytest.mark.slow
def test_demo_ops(make: Make) -> None:
    out = make("demo-ops", ARGS="--seconds 8 --port 0")
    assert "The dashboard:  http://localhost:" in out
    assert "Done: everything was stopped and removed" in out


@pytest.mark.slow
def test_test(make: Make) -> None:
    out = make("test", ARGS="-q tests/contracts/test_style.py -k both_spellings")
    assert "1 passed" in out


def test_test_all(make: Make, tree: Path) -> None:
    out = make("test-all", ARGS="-q tests/guards/test_file_guard.py -k keeps_the_owner")
    assert ("1 passed" if os.geteuid() == 0 else "1 skipped") in out
    assert list((tree / "src").rglob("*.pyc")), "every process would compile the package again"


@pytest.mark.slow
def test_coverage(make: Make, tree: Path) -> None:
    """Of the programs that tests start as well; a part has no floor, the whole has."""
    (tree / "tests" / "test_fence.py").write_text(STARTS_A_PROGRAM, encoding="utf-8")
    out = make("coverage", ARGS="-q tests/test_fence.py")
    (line,) = re.findall(r"^src/locknut/cli/wait\.py .* (\d+)%", out, re.MULTILINE)
    assert int(line) > 30
    assert "TOTAL" in out
    told = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["coverage"]
    assert told["run"]["branch"]
    assert told["report"]["fail_under"] > 50


def test_what_an_ordinary_user_has() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("needs git")
    ask = "id -u; ulimit -n; command -v python3; git rev-parse HEAD"
    done = subprocess.run(
        ["scripts/ordinary_user", "sh", "-c", ask], cwd=ROOT, check=True, capture_output=True
    )
    user, descriptors, python, commit = done.stdout.decode().split()
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, check=True, capture_output=True)
    assert user != "0"
    assert descriptors == "1024"
    assert python in {"/usr/bin/python3", "/bin/python3"} or not Path("/usr/bin/python3").exists()
    assert commit == head.stdout.decode().strip()


def test_ci_runs_what_everybody_runs() -> None:
    said = (ROOT / ".ci/run").read_text(encoding="utf-8").splitlines()
    order = [line for line in said if re.match(r"(scripts/ordinary_user )?make ", line)]
    assert order == ["make check", "scripts/ordinary_user make test", "make test-all"]


@pytest.mark.slow
def test_check() -> None:
    """In place, where the caches of an earlier run make it quick; it changes nothing."""
    subprocess.run(["make", "check"], cwd=ROOT, check=True, capture_output=True, timeout=600)


def test_format(make: Make, tree: Path) -> None:
    untidy = tree / "examples" / "untidy.py"
    untidy.write_text('"""An example."""\nimport sys\nimport os\nprint( os,sys )\n')
    make("format")
    assert "import os\nimport sys\n\nprint(os, sys)\n" in untidy.read_text()


@pytest.mark.slow
def test_models(make: Make) -> None:
    out = make("models", ARGS="'one vote is not enough'")
    assert "Exclusion (as it must)" in out


@pytest.mark.slow
def test_sim(make: Make) -> None:
    out = make("sim", SEEDS="0:2")
    assert out.count("2 seeds, ") == 8
    assert out.count(", 0 broken") == 8


def test_sim_redlock(make: Make) -> None:
    assert "4 seeds, " in make("sim-redlock", SCHEDULES="0:4")


@pytest.mark.slow
def test_mutants(make: Make) -> None:
    out = make("mutants", ARGS="cli-any-ancestor core-terminal-obeys", JOBS="2")
    assert "all          2 killed" in out


@pytest.mark.slow
def test_soak(make: Make) -> None:
    out = make("soak", DURATION="2", ARGS="-q -k kills_stops_forks")
    assert "1 passed" in out


def test_bench(make: Make, tree: Path) -> None:
    assert "core.churn: taken" in make("bench", succeeds=False, ARGS="--smoke core.churn")
    assert (tree / "docs/benchmarks/core.md").exists()


def test_bench_quick(make: Make, tree: Path) -> None:
    """It succeeds if the targets are met, and that is the machine's affair."""
    assert "core.churn: taken" in make("bench-quick", succeeds=False, ARGS="core.churn")
    assert (tree / "build/benchmarks/core.md").exists()


@pytest.mark.slow
def test_docs(make: Make, tree: Path) -> None:
    out = make("docs", ARGS="-q -k link")
    assert " passed" in out
    assert "ten minutes" in (tree / "build/site/tutorial.html").read_text()
    assert "force_release" in (tree / "build/site/api.html").read_text(), "from the docstrings"
    loads = re.compile(r"<(?:script|link|img|iframe)[^>]* (?:src|href)=\"(?:https?:)?//[^\"]*")
    pages = {page.name: page.read_text() for page in (tree / "build/site").rglob("*.html")}
    assert not {name: loads.findall(text) for name, text in pages.items() if loads.search(text)}


def test_clean(make: Make, tree: Path) -> None:
    (tree / "build").mkdir()
    (tree / "shared").mkdir()
    (tree / ".servers").unlink()  # this tree's own, which stays
    (tree / ".servers").mkdir()
    (tree / ".servers" / "linked").symlink_to(tree / "shared")
    make("clean")
    assert not [name for name in (".venv", ".servers", "build") if os.path.lexists(tree / name)]
    assert Path(sys.executable).exists()
    assert (tree / "shared").exists()


def test_no_word_is_left_out() -> None:
    assert len(WORDS) > 10
    tested = {
        name.removeprefix("test_").replace("_", "-") for name in globals() if name[:4] == "test"
    }
    assert not set(WORDS) - tested
    (phony,) = re.findall(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)
    assert phony.split() == WORDS
