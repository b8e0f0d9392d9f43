"""`locknut deadlocks`: exit code 1 and what to do, for processes that wait for each other."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.harness import SOURCE, Shell

NEST = """
import sys, locknut
url, deadlocks, outer, inner = sys.argv[1:]
locks = locknut.connect(url, label=outer, deadlocks=deadlocks)
try:
    with locks.lock(outer):
        print("holds", flush=True)
        sys.stdin.readline()
        with locks.lock(inner):
            print("both", flush=True)
except locknut.DeadlockDetected as error:
    print("gave way", len(error.cycle), flush=True)
"""


@contextmanager
def nested(url: str, deadlocks: str = "ignore") -> Iterator[list[subprocess.Popen[str]]]:
    """Two processes; each holds one lock and waits for the other's."""
    words = [sys.executable, "-c", NEST, url, deadlocks]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    started = [
        subprocess.Popen([*words, *order], env={"PYTHONPATH": SOURCE}, **pipes)  # type: ignore[call-overload]
        for order in (("a", "b"), ("b", "a"))
    ]
    try:
        for each in started:
            assert each.stdout.readline() == "holds\n"
        for each in started:
            each.stdin.write("go\n")
            each.stdin.flush()
        yield started
    finally:
        for each in started:
            each.kill()
            each.communicate()


def url_of(tmp_path: Path) -> str:
    return f"file://{tmp_path}/locks"


def when_both_wait(shell: Shell) -> None:
    while len(json.loads(shell.run("deadlocks", "--json")[1])["waits"]) < 2:
        pass


def test_nobody_waits(shell: Shell, tmp_path: Path) -> None:
    code, out, err = shell.run("deadlocks")
    assert (code, out) == (0, "")
    assert err == f"locknut: no deadlock (nobody waits) in file:{tmp_path}/locks\n"
    assert shell.run("deadlocks", "-q") == (0, "", "")
    facts = json.loads(shell.run("deadlocks", "--json")[1])
    assert facts == {"waits": [], "deadlocks": [], "stuck": []}


def test_two_processes_that_wait_for_each_other(shell: Shell, tmp_path: Path) -> None:
    with nested(url_of(tmp_path)) as (first, second):
        when_both_wait(shell)
        code, out, err = shell.run("deadlocks")
        assert (code, err) == (1, "")
        head, one, other, way_out = out.splitlines()
        assert head == "deadlock 1 of 1:"
        waits = {"b": one, "a": other} if 'for "b"' in one else {"a": one, "b": other}
        for (wanted, line), waiter in zip(sorted(waits.items()), "ba", strict=True):
            assert line.strip().startswith(f"{waiter}@")
            assert f'waits for "{wanted}", held by {wanted}@' in line
        assert str(first.pid) in one
        assert str(second.pid) in one
        command = way_out.partition("break a hold: ")[2]
        assert command.startswith("locknut break ")
        facts = json.loads(shell.run("deadlocks", "--json")[1])
        assert {each["pid"] for each in facts["deadlocks"][0]["members"]} == {first.pid, second.pid}
        assert facts["deadlocks"][0]["victim"] is None
        assert shell.run(*command.split()[1:], "--yes")[0] == 0  # the command that was shown
        free = first if command.split()[2] == "b" else second
        assert free.stdout is not None
        assert free.stdout.readline() == "both\n"
        assert shell.run("deadlocks", "-q")[0] == 0


def test_watching(shell: Shell, tmp_path: Path) -> None:
    watching = shell.start("deadlocks", "--watch", "--every", "0.05")
    assert watching.error_line().startswith("locknut: no deadlock (nobody waits)")
    with nested(url_of(tmp_path)):
        assert watching.line() == "deadlock 1 of 1:"
    assert watching.error_line().startswith("locknut: no deadlock (nobody waits)")
    watching.send(signal.SIGINT)
    assert watching.finish()[0] == 130


def test_one_process_gives_way(tmp_path: Path) -> None:
    """In real time: it takes some seconds."""
    with nested(url_of(tmp_path), "raise") as started:
        said = [each.stdout.readline() for each in started if each.stdout is not None]
        assert sorted(said) == ["both\n", "gave way 2\n"]


@pytest.mark.parametrize("words", [["x"], ["--every", "soon"], ["--no-such"]])
def test_a_wrong_command_line_is_64(shell: Shell, words: list[str]) -> None:
    assert shell.run("deadlocks", *words)[0] == 64


def test_an_engine_without_a_list_of_waiters_is_78() -> None:
    code, out, err = Shell("memcached://127.0.0.1:1").run("deadlocks")
    assert (code, out) == (78, "")
    assert "waiters" in err


def test_a_name_cannot_write_to_a_terminal() -> None:
    from locknut.cli.deadlocks import named
    from locknut.waits import Party

    assert named(Party("", "h\x07", 1, "thread \x1b[2J", "l\x1b")).isprintable()
