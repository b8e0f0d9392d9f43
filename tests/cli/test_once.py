"""`locknut once`: one start for each slot, skips that say so, and what a failure leaves behind."""

from __future__ import annotations

import json
import re
import shlex
import signal
from datetime import datetime
from pathlib import Path

import pytest

from tests.cli.harness import DEADLINE, Shell, until

PAGE = (Path(__file__).parents[2] / "docs" / "once.md").read_text(encoding="utf-8")
PER = ("--per", "700d")
"""No test runs at the edge of a slot of two years."""


def _today() -> str:
    return str(datetime.now().date())  # noqa: DTZ005  # the local day, as date(1) says it


def test_the_second_start_is_skipped_and_says_so(shell: Shell) -> None:
    assert shell.run("once", "job", *PER, "--", "echo", "ran") == (0, "ran\n", "")
    code, out, err = shell.run("once", "job", *PER, "--", "echo", "ran")
    assert (code, out) == (0, "")
    assert re.fullmatch(
        r'locknut: skipped "job": slot \d{4}-.*Z: it was begun by tester \$ echo ran at .*\n', err
    )
    assert shell.run("once", "-q", "job", *PER, "--", "echo", "ran") == (0, "", "")
    code, out, err = shell.run("once", "--json", "job", *PER, "--", "echo", "ran")
    facts = json.loads(err)
    assert (code, out, facts["event"], facts["lock"]) == (0, "", "skipped", "job")
    assert facts["reason"].startswith("slot ")


def test_at_names_the_slot(shell: Shell) -> None:
    today = ("--at", _today())
    command = ("-c", 'echo "$LOCKNUT_SLOT $LOCKNUT_LOCK"; exit 3')
    code, out, _ = shell.run("once", "job", *today, *command)
    assert code == 3
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:00Z job\n", out)
    assert shell.run("once", "-q", "job", *today, *command) == (0, "", "")


def test_a_failed_command_is_repeated_only_if_asked(shell: Shell) -> None:
    for words, again in ((), 0), (("--retry",), 7):
        name = f"job{again}"
        code, _, err = shell.run("once", name, *PER, *words, "-c", "exit 7")
        assert code == 7
        assert ("this slot may be run again" in err) is bool(again)
        assert shell.run("once", "-q", name, *PER, *words, "-c", "exit 7")[0] == again
    assert shell.run("once", "job7", *PER, "--retry", "true") == (0, "", "")
    assert "skipped" in shell.run("once", "job7", *PER, "--retry", "true")[2]


def test_a_killed_one_is_repeated_only_if_asked(shell: Shell) -> None:
    for words in (), ("--retry",):
        name = f"job{len(words)}"
        first = shell.start("once", name, *PER, *words, "-c", "echo begun; read line")
        assert first.line() == "begun"
        skipped = shell.run("once", name, *PER, *words, "echo", "ran")
        assert (skipped[0], skipped[1]) == (0, "")
        first.send(signal.SIGKILL)
        first.finish()
        assert shell.run("once", "-q", name, *PER, *words, "echo", "ran") == (
            (0, "ran\n", "") if words else (0, "", "")
        )


@pytest.mark.slow
def test_a_broken_lock_stops_the_command(shell: Shell) -> None:
    for words in (), ("--retry",):
        name = f"job{len(words)}"
        first = shell.start(
            "once", name, *PER, *words, "-c", 'echo "$LOCKNUT_FENCE"; exec sleep 60'
        )
        fence = first.line()
        assert shell.run("break", name, "--fence", fence, "--yes")[0] == 0
        code, _, err = first.finish()
        assert code == 79
        assert err.count("lost") == 1
        again = shell.run("once", "-q", name, *PER, *words, "echo", "ran")
        assert again == ((0, "ran\n", "") if words else (0, "", ""))


def test_a_run_that_takes_too_long_is_stopped(shell: Shell) -> None:
    code, _, err = shell.run("once", "job", *PER, "--at-most", "100ms", "sleep", "60")
    assert code == 124
    assert "--max-hold" in err


def test_a_signal_is_passed_on_and_the_slot_is_done(shell: Shell) -> None:
    first = shell.start("once", "job", *PER, "-c", "trap 'exit 5' TERM; echo begun; read line")
    assert first.line() == "begun"
    first.send(signal.SIGTERM)
    assert first.process.wait(DEADLINE) == 5  # before its command finds the end of its input
    until(lambda: shell.run("once", "-q", "job", *PER, "echo", "ran") == (0, "", ""))


@pytest.mark.parametrize(
    "words",
    [
        ("job", "--", "true"),
        ("job", "--per", "1h"),
        ("job", "--per", "soon", "true"),
        ("job", "--at", "soon", "true"),
        ("job", "--per", "1h", "-n", "true"),
    ],
)
def test_wrong_words_end_with_64(shell: Shell, words: tuple[str, ...]) -> None:
    code, out, err = shell.run("once", *words)
    assert (code, out) == (64, "")
    assert err.startswith("locknut: ")


def test_the_lines_of_the_crontab_run_once(shell: Shell) -> None:
    lines = re.findall(r"^[\d*][\d*/ ]+ (locknut once .*)$", PAGE, re.MULTILINE)
    assert len(lines) == 2
    for line in lines:
        _, *words = shlex.split(line.replace('"$(date +\\%F)"', _today()))
        words[-1:] = ["echo", "ran"]
        assert shell.run(*words) == (0, "ran\n", "")
        assert shell.run(*words) == (0, "", "")
