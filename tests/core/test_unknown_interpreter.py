"""On an interpreter that is not known no private part of CPython is used, and all works as ever."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.parsing import parse

pytestmark = pytest.mark.timeout(900)  # each runs a part of the suite by itself
ROOT = Path(__file__).parents[2]
PRIVATE = {
    "_asyncio_future_blocking",
    "_current_tasks",
    "_get_running_loop",
    "_getframe",
    "_is_coroutine",
    "_is_owned",
    "_sock",
    "_started",
}
"""What only `runtimes/cpython.py` may know. (A `Condition` asks our own lock for `_is_owned`.)"""


def suite(*words: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "tests.unknown_interpreter"]
    command += ["-p", "no:cacheprovider", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]


def test_commands_are_finished() -> None:
    """But each of them has a task of its own, which may not have begun yet."""
    own_task = "costs_no_task or by_its_own_hand or a_caller_that_is_closed"
    suite("tests/core/test_finishing.py", "-k", f"not ({own_task})")


@pytest.mark.slow
def test_locks_are_like_those_of_asyncio_and_threading() -> None:
    suite("tests/api/test_like_asyncio.py", "tests/api/test_keeper.py", "tests/api/test_forking.py")


@pytest.mark.slow
def test_the_memory_engine_conforms() -> None:
    suite("tests/conformance/test_memory.py")


@pytest.mark.slow
def test_the_redis_engine_conforms() -> None:
    suite("tests/conformance/test_redis.py")


@pytest.mark.slow
def test_interrupts_are_survived() -> None:
    suite("tests/api/test_interrupts.py")


def test_private_parts_are_behind_one_file() -> None:
    package = ROOT / "src" / "locknut"
    found = {
        f"{path.relative_to(package)}: {name}"
        for path in package.rglob("*.py")
        if path.name != "cpython.py"
        for name in _names(path) & PRIVATE
        if (path.parent.name, name) not in {("blocking", "_is_owned"), ("mysql", "_sock")}
    }
    assert not found


def _names(path: Path) -> set[str]:
    nodes = list(ast.walk(parse(path.read_text())))
    names = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    names |= {node.name for node in nodes if isinstance(node, ast.alias | ast.FunctionDef)}
    return names | {str(node.value) for node in nodes if isinstance(node, ast.Constant)}
