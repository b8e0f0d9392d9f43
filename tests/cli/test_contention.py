"""`locknut run` when somebody else has the lock: busy, waiting, interrupted, nested."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

import locknut
from locknut.cli import arguments, break_hint
from tests.cli.harness import LOCKNUT, PYTHON, Running, Shell, gone, until

HOLD = ("--", "sh", "-c", "echo $LOCKNUT_FENCE; read line; exit 0")
"""Says its fence and holds until its stdin ends."""


def hold(shell: Shell, *words: str) -> tuple[Running, int]:
    running = shell.start("run", *words, *HOLD)
    return running, int(running.line())


def let_go(running: Running) -> None:
    running.stdin.close()
    running.process.stdin = None
    assert running.finish()[0] == 0


def waiting(shell: Shell, name: str = "x") -> int:
    """Seen from here: a `locknut show` after the other would keep the waiter from coming so far."""
    with locknut.connect(shell.environment["LOCKNUT_URL"]) as locks:
        return len(locks.info(name).waiters)


def test_busy_is_75_and_names_the_holder(shell: Shell) -> None:
    holder, fence = hold(shell, "x")
    code, out, err = shell.run("run", "-n", "x", "--", "echo", "ran")
    assert (code, out) == (75, "")
    busy, hint = err.splitlines()
    who = f"tester@{os.uname().nodename}:{holder.pid}"
    assert busy.startswith(f'locknut: "x" is held by {who} (sh -c echo ')
    assert f"fence {fence}" in busy
    assert hint == f"locknut: to force it open: locknut break x --fence {fence}"
    let_go(holder)
    assert shell.run("run", "-n", "x", "--", "echo", "ran") == (0, "ran\n", "")


NASTY = [
    "it's $HOME; rm",
    "a\n'; echo INJECTED; '",
    "\\'; echo INJECTED #\x07",
    "both \" and ' and `echo INJECTED` and $(echo INJECTED)!!\t",
    "\u00e9\u20ac\U0001f512",
    "\u00e9\n\u20ac1\x1b[2J",
    "\x010\x7f7 ends with a newline\n",
    " ~ * ? [a] {b} & | < > ( ) \\ ",
]


@pytest.mark.parametrize("name", NASTY)
def test_the_hint_can_be_pasted(shell: Shell, tmp_path: Path, name: str) -> None:
    holder, fence = hold(shell, "--namespace", "shop", name)
    code, _, err = shell.run("run", "-n", "--namespace", "shop", name, "true")
    assert code == 75
    assert err.count("\n") == 2
    assert all(line.isprintable() for line in err.splitlines())
    command = err.splitlines()[1].removeprefix("locknut: to force it open: ")
    words = ["break", name, "--fence", str(fence), "--namespace", "shop"]
    assert pasted("bash", command, tmp_path) == words
    if name.isprintable():  # what cannot be shown is written for bash, ksh and zsh
        assert pasted("sh", command, tmp_path) == words
    let_go(holder)


def pasted(program: str, command: str, folder: Path) -> list[str]:
    """The words that `locknut` gets from a shell (in a locale of ASCII alone) that runs this."""
    words = folder / "words"
    (folder / "locknut").write_text(f"#!/bin/sh\nprintf '%s\\0' \"$@\" >{words}\n")
    (folder / "locknut").chmod(0o755)
    environment = {"PATH": f"{folder}:{os.environ['PATH']}", "LC_ALL": "C"}
    done = subprocess.run(
        [program, "-c", command], env=environment, capture_output=True, check=True
    )
    assert done.stdout == b""
    return words.read_bytes().decode().split("\0")[:-1]


def test_the_hint_leads_to_the_engine_that_was_asked(shell: Shell, tmp_path: Path) -> None:
    url = f"file://{tmp_path}/it's here?namespace=a"
    holder, fence = hold(shell, "-u", url, "x")
    code, _, err = shell.run("run", "-n", "-u", url, "x", "true", env={"LOCKNUT_NAMESPACE": "b"})
    assert code == 75
    command = err.splitlines()[1].removeprefix("locknut: to force it open: ")
    assert pasted("sh", command, tmp_path) == ["break", "x", "--fence", str(fence), "-u", url]
    assert shell.run(*pasted("sh", command, tmp_path), "--yes")[0] == 0
    assert holder.finish()[0] == 79


@pytest.mark.parametrize(
    "url", ["redis://me:secret@host/0", "zookeeper://host?auth=digest:me:secret"]
)
def test_no_hint_shows_a_password(url: str) -> None:
    options = arguments.of_command("run", ["-u", url, "x", "true"])
    command, note = break_hint.break_command("x", 1, options)
    assert (command, note) == ("locknut break x --fence 1", ", with the URL in LOCKNUT_URL")


def test_the_directory_is_named(shell: Shell, tmp_path: Path) -> None:
    place = f"in file:{tmp_path}/locks"
    holder, _ = hold(shell, "x")
    assert place in shell.run("run", "-n", "x", "true")[2].splitlines()[0]
    assert place in shell.run("wait", "-w", "0", "x")[2]
    let_go(holder)
    assert f'acquired "x" {place}, fence ' in shell.run("run", "-v", "x", "true")[2]


@pytest.mark.parametrize("code", [0, 1, 42])
def test_the_code_of_busy_can_be_chosen(shell: Shell, code: int) -> None:
    hold(shell, "x")
    assert shell.run("run", "-n", "-E", str(code), "-q", "x", "true") == (code, "", "")


def test_busy_as_json(shell: Shell) -> None:
    holder, fence = hold(shell, "x", "--owner", "nightly")
    err = shell.run("run", "-n", "--json", "x", "true")[2]
    first, second = map(json.loads, err.splitlines())
    assert (first["event"], second["event"]) == ("busy", "hint")
    (seen,) = first["holders"]
    assert (seen["fence"], seen["pid"], seen["label"]) == (fence, holder.pid, "nightly")


def test_a_wait_that_runs_out_is_75(shell: Shell) -> None:
    hold(shell, "x")
    assert shell.run("run", "-w", "0.1", "-q", "x", "--", "echo", "ran") == (75, "", "")


def test_a_wait_ends_when_the_lock_is_free(shell: Shell) -> None:
    holder, fence = hold(shell, "x")
    waiter = shell.start("run", "-w", "60", "x", "-c", "echo $LOCKNUT_FENCE")
    until(lambda: waiting(shell) == 1)
    let_go(holder)
    code, out, err = waiter.finish()
    assert (code, err) == (0, "")
    assert int(out) > fence


def test_who_waits_with_v_is_told_at_once_for_whom(shell: Shell) -> None:
    holder, _ = hold(shell, "x")
    waiter = shell.start("run", "-v", "-w", "1m30s", "x", "true")
    assert f":{holder.pid} (" in waiter.error_line()
    assert waiter.error_line() == "locknut: waiting for the lock up to 1m30s ..."
    assert "waiting" in shell.run("run", "-v", "-w", "0.1", "x", "true")[2]  # even for so short
    let_go(holder)
    assert waiter.finish()[0] == 0


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1"])
def test_a_signal_ends_the_wait_and_leaves_the_line(shell: Shell, name: str) -> None:
    holder, _ = hold(shell, "x")
    waiter = shell.start("run", "x", "--", "echo", "ran")
    until(lambda: waiting(shell) == 1)
    signum = getattr(signal, name)
    waiter.send(signum)
    assert waiter.finish() == (128 + signum, "", "")
    assert waiting(shell) == 0
    let_go(holder)
    assert shell.run("run", "-n", "x", "true")[0] == 0


def test_the_lock_of_a_killed_locknut_is_free(shell: Shell) -> None:
    holder, _ = hold(shell, "x")
    waiter = shell.start("run", "-w", "60", "x", "--", "echo", "ran")
    until(lambda: waiting(shell) == 1)
    holder.send(signal.SIGKILL)
    assert waiter.finish() == (0, "ran\n", "")


def test_shared_holds_share_and_exclude_the_others(shell: Shell) -> None:
    hold(shell, "-s", "x")
    assert shell.run("run", "-n", "-s", "x", "true")[0] == 0
    assert shell.run("run", "-n", "-q", "-x", "x", "true")[0] == 75


def test_slots_let_so_many_run(shell: Shell) -> None:
    first, _ = hold(shell, "-j", "2", "x")
    hold(shell, "-j", "2", "x")
    assert shell.run("run", "-n", "-q", "-j", "2", "x", "true")[0] == 75
    let_go(first)
    assert shell.run("run", "-n", "-j", "2", "x", "true")[0] == 0


@pytest.mark.slow
def test_what_a_child_is_told_is_no_order_to_a_nested_run(shell: Shell) -> None:
    url = shell.environment["LOCKNUT_URL"]
    tell = ("-c", "echo $LOCKNUT_LOCK_NAMESPACE")
    for inner, namespace in (
        (("-u", f"{url}?namespace=b"), "b"),
        (("-u", url), "locknut"),
        (("-u", f"{url}?namespace=b", "--namespace", "c"), "c"),
        ((), "locknut"),
    ):
        alone = ("run", *inner, "y", *tell)
        assert shell.run(*alone)[:2] == (0, f"{namespace}\n")
        outer = ("run", "--namespace", "above", "x", "--", *LOCKNUT)
        assert shell.run(*outer, *alone)[:2] == (0, f"{namespace}\n")


def test_the_url_wins_over_the_namespace_of_the_environment(shell: Shell) -> None:
    url = shell.environment["LOCKNUT_URL"]
    tell = ("x", "-c", "echo $LOCKNUT_LOCK_NAMESPACE")
    env = {"LOCKNUT_NAMESPACE": "environment"}
    assert shell.run("run", *tell, env=env)[1] == "environment\n"
    assert shell.run("run", "-u", f"{url}?namespace=url", *tell, env=env)[1] == "url\n"
    env["LOCKNUT_URL"] = f"{url}?namespace=url"
    assert shell.run("run", *tell, env=env)[1] == "url\n"
    assert shell.run("run", "--namespace", "option", *tell, env=env)[1] == "option\n"


def test_names_of_other_namespaces_do_not_meet(shell: Shell) -> None:
    hold(shell, "x")
    assert shell.run("run", "-n", "--namespace", "other", "x", "true")[0] == 0
    in_environment = {"LOCKNUT_NAMESPACE": "other"}
    assert shell.run("run", "-n", "x", "true", env=in_environment)[0] == 0


NESTED = "import subprocess, sys; sys.exit(subprocess.run(sys.argv[1:]).returncode)"


def nested(*words: str) -> list[str]:
    from tests.cli.harness import LOCKNUT

    return ["--", *PYTHON, NESTED, *LOCKNUT, "run", *words]


def test_the_lock_of_an_ancestor_is_refused_instead_of_waited_for(shell: Shell) -> None:
    code, out, err = shell.run("run", "x", *nested("y", *nested("x", "--", "echo", "ran")))
    assert (code, out) == (78, "")
    assert "outer" in err
    assert err.count("\n") == 1


def test_another_lock_inside_a_lock_is_fine(shell: Shell) -> None:
    assert shell.run("run", "x", *nested("y", "--", "echo", "ran")) == (0, "ran\n", "")
    other = nested("--namespace", "other", "x", "--", "echo", "ran")
    assert shell.run("run", "x", *other) == (0, "ran\n", "")


def test_a_hold_that_ended_is_no_ancestors_hold(shell: Shell) -> None:
    code, held, _ = shell.run("run", "x", "-c", "echo $LOCKNUT_HELD")
    assert code == 0
    assert shell.run("run", "x", "true", env={"LOCKNUT_HELD": held.strip()})[0] == 0


def test_at_least_keeps_the_lock_after_the_command(shell: Shell) -> None:
    running = shell.start("run", "--at-least", "1h", "x", "-c", "echo $$; exit 3")
    command = int(running.line())
    until(lambda: gone(command))
    assert shell.run("run", "-n", "-q", "x", "true")[0] == 75
    running.send(signal.SIGTERM)
    assert running.process.wait(timeout=60) == 3
    assert shell.run("run", "-n", "x", "true")[0] == 0


def test_at_least_ends_by_itself(shell: Shell) -> None:
    assert shell.run("run", "--at-least", "0.1", "x", "--", "true") == (0, "", "")
