"""`locknut run` where stdin, stdout or stderr is closed: daemons and some crons start things so."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.cli.harness import Shell, default_signals

WHICH = [(0,), (1,), (2,), (0, 1), (1, 2), (0, 2), (0, 1, 2)]
closed = pytest.mark.parametrize("closed", WHICH, ids=str)


def run_without(shell: Shell, closed: Sequence[int], *words: str) -> int:
    """Its exit code, when it is started with these descriptors closed."""

    def close() -> None:
        default_signals()
        for descriptor in closed:
            os.close(descriptor)

    return shell.start(*words, before=close).finish()[0]


@closed
def test_the_command_runs_and_nothing_is_written_into_the_lock_file(
    shell: Shell, tmp_path: Path, closed: tuple[int, ...]
) -> None:
    ran = tmp_path / "ran"
    assert run_without(shell, closed, "run", "-v", "x", "-c", f"sleep 0.1; echo ran >{ran}") == 0
    assert ran.read_text() == "ran\n"
    assert shell.run("run", "-n", "x", "--", "echo", "again")[:2] == (0, "again\n")


@closed
def test_a_busy_lock_keeps_the_record_of_its_holder(shell: Shell, closed: tuple[int, ...]) -> None:
    holder = shell.start("run", "x", "-c", "echo $LOCKNUT_FENCE; read line || :")
    fence = holder.line()
    assert run_without(shell, closed, "run", "-n", "x", "--", "true") == 75
    assert f"fence {fence}" in shell.run("show", "x")[1]
    holder.stdin.close()
    assert holder.process.wait(60) == 0


@closed
def test_the_command_gets_the_descriptors_as_they_were(
    shell: Shell, tmp_path: Path, closed: tuple[int, ...]
) -> None:
    seen = tmp_path / "seen"
    look = f'for n in 0 1 2; do [ -e /proc/$$/fd/$n ] && list="$list $n"; done; echo $list >{seen}'
    assert run_without(shell, closed, "run", "x", "-c", look) == 0
    expected = [str(number) for number in range(3) if number not in closed]
    assert seen.read_text().split() == expected


@pytest.mark.parametrize("verb", ["ls", "show x", "wait x", "--version", "nonsense"])
def test_other_verbs_end_as_ever(shell: Shell, verb: str) -> None:
    code = shell.run(*verb.split())[0]
    assert run_without(shell, (0, 1, 2), *verb.split()) == code
