"""`locknut ls`, `show`, `break` and `wait`."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

import locknut
from tests.cli.harness import Shell, catches, until
from tests.cli.test_contention import hold, let_go, waiting


def test_ls_lists_what_is_held_and_waited_for(shell: Shell) -> None:
    assert shell.run("ls", "--json") == (0, "[]\n", "")
    holder, fence = hold(shell, "order:1", "--owner", "nightly")
    hold(shell, "-s", "report")
    shell.start("run", "order:1", "true")
    until(lambda: waiting(shell, "order:1") == 1)
    code, out, err = shell.run("ls")
    assert (code, err) == (0, "")
    head, first, second = out.splitlines()
    assert head.split()[0] == "NAME"
    who = f"nightly@{os.uname().nodename}:{holder.pid}"
    assert first.split()[:3] == ["order:1", "exclusive", who]
    assert first.split()[5:7] == [str(fence), "1"]
    assert second.split()[:2] == ["report", "shared"]
    assert [line.split()[0] for line in shell.run("ls", "rep*")[1].splitlines()[1:]] == ["report"]
    assert [each["lock"] for each in json.loads(shell.run("ls", "--json", "--waiting")[1])] == [
        "order:1"
    ]


def test_an_empty_ls_says_where_it_looked(shell: Shell, tmp_path: Path) -> None:
    hold(shell, "order:1")
    place = f"file:{tmp_path}/locks"
    code, out, err = shell.run("ls", "report*")
    assert (code, len(out.splitlines())) == (0, 1)
    assert err == f'locknut: no lock like "report*" is held or waited for in {place}\n'
    assert shell.run("ls", "--waiting")[2] == f"locknut: no lock is waited for in {place}\n"
    assert shell.run("ls", "-q", "report*")[2] == ""


def test_one_word_too_many_is_named(shell: Shell) -> None:
    code, _, err = shell.run("ls", "a*", "b*")
    assert code == 64
    assert err == "locknut: there is one argument too many: 'b*' (try: locknut ls --help)\n"


def test_ls_can_go_on_until_interrupted(shell: Shell) -> None:
    watching = shell.start("ls", "--watch", "--every", "0.05", "--json")
    assert watching.line() == "[]"
    hold(shell, "x")
    while watching.line() == "[]":
        pass
    watching.send(signal.SIGINT)
    assert watching.process.wait(timeout=60) == 130


def test_a_reader_that_goes_away_is_no_error(shell: Shell) -> None:
    watching = shell.start("ls", "--watch", "--every", "0.01")
    watching.line()
    watching.out.close()
    watching.process.stdout = None
    code, _, err = watching.finish()
    assert (code, err) == (141, "")


def test_show_tells_holders_and_the_line_in_order(shell: Shell) -> None:
    place = f"file:{shell.environment['LOCKNUT_URL'].removeprefix('file://')}"
    assert shell.run("show", "x") == (0, f'"x" is free in {place}\n', "")
    holder, fence = hold(shell, "x")
    pids = []
    for count in (1, 2):
        pids.append(shell.start("run", "--fair", "x", "true").pid)
        until(lambda count=count: waiting(shell) == count)  # type: ignore[misc]  # bound now
    code, out, err = shell.run("show", "x")
    assert (code, err) == (0, "")
    found = [out.index(f":{pid}") for pid in (holder.pid, *pids)]
    assert found == sorted(found)
    assert out.startswith(f'"x" in {place}:\n')
    assert f"fence {fence}" in out
    facts = json.loads(shell.run("show", "--json", "x")[1])
    assert facts["place"] == place
    assert [each["pid"] for each in facts["holders"]] == [holder.pid]
    assert [each["pid"] for each in facts["waiters"]] == pids


def test_break_needs_the_right_fence(shell: Shell) -> None:
    holder, fence = hold(shell, "x")
    code, _, err = shell.run("break", "x", "--fence", str(fence - 32), "--yes")
    assert code == 75
    assert str(fence) in err
    let_go(holder)


def test_a_break_that_is_refused_does_not_let_the_holder_write_to_the_terminal(
    shell: Shell,
) -> None:
    nasty = "deploy\x1b]0;title\x07\nlocknut: broke it"
    url = shell.environment["LOCKNUT_URL"]
    with locknut.connect(url, label=nasty) as locks, locks.lock("x") as lease:
        code, _, err = shell.run("break", "x", "--fence", str(lease.fence - 32), "--yes")
    assert (code, err.count("\n")) == (75, 1)
    assert err.rstrip("\n").isprintable()
    assert "deploy\\x1b" in err


def test_break_needs_a_fence_and_consent_where_nobody_can_be_asked(shell: Shell) -> None:
    holder, fence = hold(shell, "x")
    code, _, err = shell.run("break", "x", "--yes")
    assert code == 64
    assert f'--fence N ("x" has {fence})' in err
    code, _, err = shell.run("break", "x", "--fence", str(fence))
    assert code == 64
    assert "--yes" in err
    let_go(holder)


def test_break_of_a_free_lock_is_no_error(shell: Shell) -> None:
    code, _, err = shell.run("break", "x", "--fence", "32", "--yes")
    assert code == 0
    assert "not held" in err


def test_break_gives_the_lock_to_the_next(shell: Shell) -> None:
    holder, fence = hold(shell, "x")
    waiter = shell.start("run", "x", "--", "echo", "ran")
    until(lambda: waiting(shell) == 1)
    words = ("break", "x", "--fence", str(fence), "--yes", "--reason", "stuck", "--json")
    code, out, _ = shell.run(*words)
    assert code == 0
    told = json.loads(out)
    assert (told["broken"], told["fence"], told["reason"]) == (True, fence, "stuck")
    assert holder.finish()[0] == 79
    assert waiter.finish()[:2] == (0, "ran\n")


def test_wait_returns_when_free_and_takes_nothing(shell: Shell) -> None:
    assert shell.run("wait", "x") == (0, "", "")
    holder, fence = hold(shell, "x")
    waiter = shell.start("wait", "x")
    assert shell.run("wait", "x", "--timeout", "0")[0] == 75
    code, _, err = shell.run("wait", "x", "--timeout", "0.1")
    assert code == 75
    assert f"fence {fence}" in err
    assert waiting(shell) == 0
    let_go(holder)
    assert waiter.finish() == (0, "", "")


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_wait_can_be_interrupted(shell: Shell, name: str) -> None:
    hold(shell, "x")
    waiter = shell.start("wait", "-v", "x")
    until(lambda: catches(waiter.pid, signal.SIGTERM))
    waiter.send(getattr(signal, name))
    assert waiter.finish()[0] == 128 + getattr(signal, name)
