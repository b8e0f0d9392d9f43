"""`locknut deadlocks`: exit code 1 and what to do, for processes that wait for each other."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from locknut.cli import deadlocks
from locknut.waits import Party
from tests.cli.harness import SOURCE, Shell
from tests.servers.redis import RedisServer

NEST = """
import sys, locknut
deadlocks, outer, first, inner, second = sys.argv[1:]
locks = locknut.connect(first, label=outer, deadlocks=deadlocks)
other = locks if second == first else locknut.connect(second, label=outer, deadlocks=deadlocks)
try:
    with locks.lock(outer):
        print("holds", flush=True)
        sys.stdin.readline()
        with other.lock(inner):
            print("both", flush=True)
except locknut.DeadlockDetected as error:
    print("gave way", len(error.cycle), flush=True)
"""


@contextmanager
def nested(
    url: str, on_deadlock: str = "ignore", elsewhere: str = ""
) -> Iterator[list[subprocess.Popen[str]]]:
    """Two processes; each holds one lock and waits for the other's. "a" is at the URL, and "b" is
    there too or elsewhere.
    """
    words = [sys.executable, "-c", NEST, on_deadlock]
    a, b = ("a", url), ("b", elsewhere or url)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    started = [
        subprocess.Popen([*words, *order], env={"PYTHONPATH": SOURCE}, **pipes)  # type: ignore[call-overload]
        for order in ((*a, *b), (*b, *a))
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


@pytest.mark.slow
def test_one_process_gives_way(tmp_path: Path) -> None:
    """In real time: it takes some seconds."""
    with nested(url_of(tmp_path), "raise") as started:
        said = [each.stdout.readline() for each in started if each.stdout is not None]
        assert sorted(said) == ["both\n", "gave way 2\n"]


@pytest.fixture
def two_engines(tmp_path: Path, redis_server: RedisServer) -> tuple[str, str]:
    return url_of(tmp_path), f"{redis_server.url}?namespace={tmp_path.name}"


def asked(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """The verb in this process: a few times as fast."""
    code = deadlocks.main("deadlocks", words)
    return code, capsys.readouterr().out


@pytest.mark.redis
def test_through_two_engines(
    shell: Shell, two_engines: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Each of them alone shows a wait that may end."""
    file, redis = two_engines
    with nested(file, elsewhere=redis) as (first, second):
        while len(json.loads(asked(capsys, *two_engines, "--json")[1])["waits"]) < 2:
            pass
        for alone in two_engines:
            assert asked(capsys, alone, "-q") == (0, "")
        code, out = asked(capsys, *two_engines)
        assert code == 1
        head, one, other, way_out = out.splitlines()
        assert head == "deadlock 1 of 1:"
        told = sorted((one, other), key=lambda line: line.partition(" waits for ")[2])
        for line, (wanted, where) in zip(told, (("a", "file:"), ("b", "redis:")), strict=True):
            assert f'waits for "{wanted}" in {where}' in line
            assert all(str(each.pid) in line for each in (first, second))
        command = way_out.partition("break a hold: ")[2]
        assert shell.run(*shlex.split(command)[1:], "--yes")[0] == 0  # it leads to the right one
        free = first if shlex.split(command)[2] == "b" else second
        assert free.stdout is not None
        assert free.stdout.readline() == "both\n"


@pytest.mark.redis
def test_several_engines_in_which_nobody_waits(
    two_engines: tuple[str, str], capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file, redis = two_engines
    urls = tmp_path / "urls"
    urls.write_text(f"# with a password, say\n{redis}\n")
    assert deadlocks.main("deadlocks", [file, "--urls-file", str(urls)]) == 0
    said = capfd.readouterr().err
    assert f"no deadlock (nobody waits) in file:{tmp_path}/locks, redis:" in said


@pytest.mark.redis
@pytest.mark.slow
def test_one_process_gives_way_through_two_engines(two_engines: tuple[str, str]) -> None:
    """In real time: it takes some seconds."""
    file, redis = two_engines
    with nested(file, "raise", elsewhere=redis) as started:
        said = [each.stdout.readline() for each in started if each.stdout is not None]
        assert sorted(said) == ["both\n", "gave way 2\n"]


@pytest.mark.parametrize("words", [["--every", "soon"], ["--no-such"]])
def test_a_wrong_command_line_is_64(shell: Shell, words: list[str]) -> None:
    assert shell.run("deadlocks", *words)[0] == 64


def test_an_engine_without_a_list_of_waiters_is_78() -> None:
    code, out, err = Shell("memcached://127.0.0.1:1").run("deadlocks")
    assert (code, out) == (78, "")
    assert "waiters" in err


def test_a_name_cannot_write_to_a_terminal() -> None:
    assert deadlocks.named(Party("", "h\x07", 1, "thread \x1b[2J", "l\x1b")).isprintable()
