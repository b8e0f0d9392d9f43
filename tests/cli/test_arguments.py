"""What can be written after `locknut run`, and what it means."""

from __future__ import annotations

import signal

import pytest

from locknut.cli import arguments
from locknut.cli.option_table import BREAK, EVERYWHERE, LS, NEVER, RUN, WAIT
from locknut.cli.option_values import OnLost


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for option in (*RUN, *EVERYWHERE, *WAIT):
        if option.variable:
            monkeypatch.delenv(option.variable, raising=False)


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as end:
        arguments.of_command("run", words)
    assert end.value.code == 64
    message = capsys.readouterr().err
    assert message.startswith("locknut: ")
    assert message.count("\n") == 1
    return message


@pytest.mark.parametrize(
    ("words", "ours", "command"),
    [
        ("x -- ls -l", "x", "ls -l"),
        ("-n x -- ls", "-n x", "ls"),
        ("x -n -- ls", "x -n", "ls"),
        ("x ls -n", "x", "ls -n"),
        ("x git log -- file", "x", "git log -- file"),
        ("-w 5 x ls", "-w 5 x", "ls"),
        ("-w5 x ls", "-w5 x", "ls"),
        ("--wait=5 x ls", "--wait=5 x", "ls"),
        ("-nqw 5 x ls", "-nqw 5 x", "ls"),
        ("-x x -- -x", "-x x", "-x"),
        ("x -- -- a", "x", "-- a"),
        ("x", "x", ""),
        ("", "", ""),
    ],
)
def test_the_command_starts_after_dashes_or_after_the_name(
    words: str, ours: str, command: str
) -> None:
    assert arguments.split(words.split()) == (ours.split(), command.split())


def test_flocks_letters() -> None:
    found = arguments.of_command("run", ["-n", "-E", "0", "-s", "x", "--", "true"])
    assert (found.wait, found.conflict_exit_code, found.shared) == (0.0, 0, True)
    assert arguments.of_command("run", ["x", "-c", "a | b"]).command == ["/bin/sh", "-c", "a | b"]


def test_defaults() -> None:
    found = arguments.of_command("run", ["x", "true"])
    assert found.wait == found.max_hold == NEVER
    assert found.conflict_exit_code == 75
    assert found.on_lost == OnLost(signal.SIGTERM, stops=True)
    assert (found.ttl, found.grace, found.slots, found.url, found.shared) == (None,) * 4 + (False,)


@pytest.mark.parametrize(
    ("text", "seconds"), [("0", 0.0), ("0.5", 0.5), ("90", 90.0), ("1m30s", 90.0), ("2h", 7200.0)]
)
def test_durations(text: str, seconds: float) -> None:
    assert arguments.of_command("run", ["-w", text, "x", "true"]).wait == seconds
    assert arguments.of("wait", ["--timeout", text, "x"]).wait == seconds


@pytest.mark.parametrize(
    "words", ["--timeout 5 x true", "--timeout=5 x true", "x --timeout 5 -- a"]
)
def test_a_timeout_that_could_mean_either_limit_is_refused(
    words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    message = refused(capsys, *words.split())
    assert "--wait DURATION" in message
    assert "--max-hold DURATION" in message


def test_a_timeout_of_the_command_is_its_own() -> None:
    assert arguments.of_command("run", ["x", "--", "curl", "--timeout", "5"]).command[1:] == [
        "--timeout",
        "5",
    ]
    assert arguments.of_command("run", ["x", "curl", "--timeout", "5"]).command[1:] == [
        "--timeout",
        "5",
    ]


def test_the_last_of_wait_and_nonblock_counts() -> None:
    assert arguments.of_command("run", ["-n", "-w", "3", "x", "true"]).wait == 3.0
    assert arguments.of_command("run", ["-w", "3", "-n", "x", "true"]).wait == 0.0


def test_the_environment_stands_in_and_the_command_line_wins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LOCKNUT_RUN_WAIT", "7")
    monkeypatch.setenv("LOCKNUT_RUN_ON_LOST", "signal:usr1")
    monkeypatch.setenv("LOCKNUT_RUN_FAIR", "1")
    monkeypatch.setenv("LOCKNUT_QUIET", "0")
    found = arguments.of_command("run", ["x", "true"])
    assert (found.wait, found.fair, found.quiet) == (7.0, True, False)
    assert found.on_lost == OnLost(signal.SIGUSR1, stops=False)
    assert arguments.of_command("run", ["-n", "x", "true"]).wait == 0.0


def test_a_mistake_in_the_environment_names_the_variable(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LOCKNUT_RUN_TTL", "soon")
    assert "$LOCKNUT_RUN_TTL" in refused(capsys, "x", "true")
    assert arguments.of_command("run", ["--ttl", "9", "x", "true"]).ttl == 9.0


def test_what_the_child_is_told_is_no_order_to_a_nested_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LOCKNUT_TTL", "5")
    monkeypatch.setenv("LOCKNUT_OWNER", "outer@host:1")
    found = arguments.of_command("run", ["x", "true"])
    assert (found.ttl, found.owner) == (None, "")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("", "NAME"),
        ("x", "no command"),
        ("x --", "no command"),
        ("-w soon x true", "-w"),
        ("-w -5 x true", "-w"),
        ("-E 256 x true", "255"),
        ("-E many x true", "whole number"),
        ("-j 0 x true", "slot"),
        ("-s -j 2 x true", "exclude"),
        ("-s --fair x true", "--fair"),
        ("-c ls x -- true", "either"),
        ("--on-lost explode x true", "signal:USR1"),
        ("--on-lost signal:NOPE x true", "signal:USR1"),
        ("--on-backend-error pray x true", "skip"),
        ("--require magic x true", "fencing"),
        ("--ttl 15 --grace 5 x true", "third"),
        ("--nonblo x true", "no option '--nonblo', did you mean '--nonblock'?"),
        ("--tll=5 x true", "no option '--tll', did you mean '--ttl'?"),
        ("--bogus x true", "no option '--bogus' (try"),
    ],
)
def test_mistakes_are_one_line_and_code_64(
    words: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert says in refused(capsys, *words.split())


def test_every_option_explains_itself_in_one_line() -> None:
    for option in (*EVERYWHERE, *RUN, *LS, *BREAK, *WAIT):
        assert option.help
        assert "\n" not in option.help
