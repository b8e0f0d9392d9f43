"""`locknut lead`: one command runs, the others stand by, and nothing is restarted unasked."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from subprocess import DEVNULL, PIPE

import pytest

from locknut.cli import lead as lead_verb
from locknut.cli.run import Run
from locknut.errors import BackendUnavailable
from tests.cli.harness import DEADLINE, Running, Shell, until

WORK = ("--", "sh", "-c", 'echo "leads $LOCKNUT_FENCE"; read line; exit ${line:-0}')


def lead(shell: Shell, *words: str) -> Running:
    return shell.start("lead", *words, "x", *WORK)


def waits(shell: Shell) -> bool:
    return bool(json.loads(shell.run("show", "--json", "x")[1])["waiters"])


def tell(leader: Running, word: str) -> None:
    leader.stdin.write(word + "\n")
    leader.stdin.flush()


def test_a_stand_in_leads_when_the_command_ends(shell: Shell) -> None:
    first = lead(shell)
    assert first.line().startswith("leads")
    second = lead(shell)
    until(lambda: waits(shell))
    tell(first, "3")
    assert first.finish() == (3, "", "")
    assert second.line().startswith("leads")
    tell(second, "0")
    assert second.finish() == (0, "", "")


def test_a_stand_in_leads_when_the_leader_is_killed(shell: Shell) -> None:
    first = lead(shell)
    fence = int(first.line().split()[1])
    second = lead(shell)
    until(lambda: waits(shell))
    first.send(signal.SIGKILL)
    assert int(second.line().split()[1]) > fence


def test_a_loss_stops_the_command(shell: Shell) -> None:
    first = lead(shell)
    fence = first.line().split()[1]
    assert shell.run("break", "x", "--fence", fence, "--yes")[0] == 0
    assert first.finish()[0] == 79


@pytest.mark.slow
def test_restart_stands_by_again(shell: Shell) -> None:
    first = lead(shell, "--restart")
    fence = first.line().split()[1]
    assert shell.run("break", "x", "--fence", fence, "--yes")[0] == 0
    second_term = first.line().split()[1]
    assert int(second_term) > int(fence), "after a loss"
    tell(first, "9")
    assert int(first.line().split()[1]) > int(second_term), "after the end of the command"
    first.send(signal.SIGTERM)
    first.process.wait(DEADLINE)  # before its command finds the end of its input
    code, out, err = first.finish()
    assert (code, out) == (143, "")
    assert "the command ended with 79; standing by" in err
    assert "the command ended with 9; standing by" in err


TERMS = """
import os, sys
from pathlib import Path
from locknut.cli import arguments
from locknut.cli.run import Run

for command in ("true", "true", "no-such-program-at-all", "true"):
    Run(arguments.of_command("lead", ["-q", "-u", sys.argv[1], "x", "--", command])).perform()
    found = [each for each in Path("/proc/self/fd").iterdir() if each.is_symlink()]
    print(sum(os.readlink(each).startswith("pipe:") for each in found))
"""
"""Several terms in one process, as with --restart; how many ends of pipes are open after each."""


def test_a_term_leaves_no_descriptor_behind(tmp_path: Path) -> None:
    program = [sys.executable, "-c", TERMS, f"file://{tmp_path}/locks"]
    ended = subprocess.run(program, stdin=DEVNULL, stdout=PIPE, text=True, check=True)
    after_each = ended.stdout.split()
    assert len(after_each) == 4
    assert len(set(after_each)) == 1, after_each


def test_restart_is_pointless_without_a_program(shell: Shell) -> None:
    assert shell.run("lead", "--restart", "x", "--", "no-such-program-at-all")[0] == 127


def test_a_signal_ends_the_standing_by(shell: Shell) -> None:
    first = lead(shell)
    assert first.line()
    second = lead(shell, "--restart")
    until(lambda: waits(shell))
    second.send(signal.SIGTERM)
    assert second.finish() == (143, "", "")
    assert not waits(shell)


def test_a_signal_that_comes_while_the_engine_is_given_up_is_heeded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It stood by again, for ever, because nobody looked: closing takes its time without an
    engine.
    """
    performed: list[Run] = []

    def perform(term: Run) -> int:
        performed.append(term)
        assert len(performed) == 1, "it stands by again"
        with term.signals:
            signal.raise_signal(signal.SIGTERM)
        raise BackendUnavailable("no engine")

    monkeypatch.setattr(Run, "perform", perform)
    url = f"file://{tmp_path}"
    assert lead_verb.main("lead", ["-u", url, "--restart", "x", "--", "true"]) == 128 + 15
