"""`locknut run`: exit codes, what the child gets, and what is said."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import locknut
from tests.cli.harness import LOCKNUT, PYTHON, Shell, default_signals


@pytest.mark.parametrize("code", [0, 1, 64, 75, 79, 255])
def test_the_childs_code_is_passed_through(shell: Shell, code: int) -> None:
    assert shell.run("run", "x", "--", "sh", "-c", f"exit {code}") == (code, "", "")


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV])
def test_a_child_that_dies_by_a_signal_gives_128_and_its_number(shell: Shell, signum: int) -> None:
    assert shell.run("run", "x", "-c", f"kill -{int(signum)} $$")[0] == 128 + signum


def test_a_command_that_is_not_there_is_127(shell: Shell) -> None:
    code, out, err = shell.run("run", "x", "--", "no-such-command")
    assert (code, out) == (127, "")
    assert err == "locknut: cannot run 'no-such-command': No such file or directory\n"


def test_a_file_that_cannot_be_executed_is_126(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("data")
    assert shell.run("run", "x", "--", f"{tmp_path}/data")[0] == 126


def test_a_script_without_a_first_line_is_run_by_the_shell(shell: Shell, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text('echo "$1"; exit 4')
    script.chmod(0o755)
    assert shell.run("run", "x", "--", str(script), "word") == (4, "word\n", "")
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    assert shell.run("run", "x", "--", "script", "word", env=path) == (4, "word\n", "")


def test_arguments_reach_the_command_unchanged(shell: Shell) -> None:
    words = ["a b", "$HOME", "*", "--", "-n", "", "é\n"]
    code, out, _ = shell.run(
        *("run", "x", "--", *PYTHON, "import json, sys; print(json.dumps(sys.argv[1:]))", *words)
    )
    assert (code, json.loads(out)) == (0, words)


def test_a_string_is_given_to_the_shell(shell: Shell) -> None:
    assert shell.run("run", "-c", "echo a | tr a b; exit 3", "x") == (3, "b\n", "")


def test_stdin_is_the_childs(shell: Shell) -> None:
    running = shell.start("run", "x", "--", "cat")
    running.stdin.write("one\n")
    running.stdin.flush()
    assert running.line() == "one"
    running.stdin.close()
    running.process.stdin = None
    assert running.finish() == (0, "", "")


def test_the_child_is_told_about_the_lock(shell: Shell) -> None:
    secret = {"LOCKNUT_RUN_OWNER": "nightly"}
    running = shell.start("run", "a:b", "--namespace", "shop", "--", "env", env=secret)
    _, out, _ = running.finish()
    told = dict(line.split("=", 1) for line in out.splitlines() if line.startswith("LOCKNUT"))
    assert told["LOCKNUT_LOCK"] == "a:b"
    assert told["LOCKNUT_LOCK_NAMESPACE"] == "shop"
    assert int(told["LOCKNUT_FENCE"]) > 0
    assert told["LOCKNUT_OWNER"] == f"nightly@{os.uname().nodename}:{running.pid}"
    assert told["LOCKNUT_BACKEND"] == shell.environment["LOCKNUT_URL"].partition(":")[0]
    assert told["LOCKNUT_HELD"] == f"a%3Ab#{told['LOCKNUT_FENCE']}"
    assert told["LOCKNUT_TTL"] == ""
    assert int(told["LOCKNUT_LOST_FD"]) > 2


def test_an_explicit_ttl_is_told(shell: Shell) -> None:
    assert shell.run("run", "--ttl", "1m", "x", "-c", "echo $LOCKNUT_TTL")[1] == "60\n"


def test_fences_grow(shell: Shell) -> None:
    first, second = (int(shell.run("run", "x", "-c", "echo $LOCKNUT_FENCE")[1]) for _ in "12")
    assert first < second


def test_a_url_given_as_an_option_is_not_told_to_the_child(shell: Shell) -> None:
    url = shell.environment.pop("LOCKNUT_URL")
    code, out, _ = shell.run("run", "--url", url, "x", "--", "env")
    assert code == 0
    assert "LOCKNUT_URL" not in out


@pytest.mark.slow
def test_an_engine_that_excludes_nobody_else_is_refused(shell: Shell) -> None:
    for verb in (("run", "x", "--", "echo", "ran"), ("ls",), ("show", "x"), ("wait", "x")):
        for url in ("memory:", "memory:name?namespace=a"):
            code, out, err = shell.run(*verb, env={"LOCKNUT_URL": url})
            assert (code, out) == (78, "")
            assert "excludes nobody outside this process" in err
    assert shell.run("run", "-u", "memory:", "x", "--", "echo", "ran")[:2] == (78, "")


def test_python_m_and_the_console_script_are_the_same(shell: Shell) -> None:
    assert LOCKNUT[1:] == ["-m", "locknut"]
    code, out, err = shell.run("--version")
    assert (code, out, err) == (0, f"locknut {locknut.__version__}\n", "")
    said = " ".join(shell.run("--help")[1].split())
    assert "break" in said
    assert "files in this user's home directory: other users and other machines do not see" in said


@pytest.mark.parametrize(
    "words", [(), ("fly",), ("run",), ("run", "x"), ("show",), ("ls", "a", "b")]
)
def test_wrong_use_is_64_and_one_line(shell: Shell, words: tuple[str, ...]) -> None:
    code, out, err = shell.run(*words)
    assert (code, out) == (64, "")
    assert err.startswith("locknut: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "words",
    [
        ("--url", "nosuch://secret:password@host", "x"),
        ("--url", "no-scheme-secret@host", "x"),
        ("--namespace", "a b", "x"),
        ("--require", "replicated", "x"),
        ("",),
        ("x" * 2000,),
    ],
)
def test_what_the_engine_cannot_do_is_78(shell: Shell, words: tuple[str, ...]) -> None:
    code, out, err = shell.run("run", *words, "--", "echo", "ran")
    assert (code, out) == (78, "")
    assert err.startswith("locknut: ")
    assert err.count("\n") == 1
    assert "secret" not in err


def test_debug_shows_where(shell: Shell) -> None:
    words = ("run", "--url", "nosuch://secret:password@host", "x", "true")
    err = shell.run(*words, env={"LOCKNUT_DEBUG": "1"})[2]
    assert "Traceback" in err
    assert "password" not in err


def test_own_messages_as_json(shell: Shell) -> None:
    _, out, err = shell.run("run", "--json", "-v", "x", "--", "echo", "ran")
    assert out == "ran\n"
    assert [json.loads(line)["event"] for line in err.splitlines()] == ["acquired", "released"]


def test_descriptors_of_the_engine_do_not_leak(shell: Shell) -> None:
    out = shell.run("run", "x", "-c", "echo $LOCKNUT_LOST_FD; ls /proc/$$/fd")[1]
    lost, *open_ones = out.split()
    assert sorted(open_ones) == sorted(["0", "1", "2", lost])


def test_descriptors_of_the_caller_are_passed_on(shell: Shell) -> None:
    read, write = os.pipe()
    writes = f"import os; os.write({write}, b'through')"
    running = shell.start("run", "x", "--", *PYTHON, writes, pass_fds=[write])
    os.close(write)
    assert running.finish()[0] == 0
    with os.fdopen(read) as pipe:
        assert pipe.read() == "through"


def signals_of_child(shell: Shell, **options: object) -> dict[str, int]:
    words = ("run", "x", "--", "cat", "/proc/self/status")
    out = shell.start(*words, **options).finish()[1]  # type: ignore[arg-type]  # passed on
    lines = (line.partition(":") for line in out.splitlines() if line.startswith("Sig"))
    # 32 and 33 are the C library's own: ignored in whatever a `make` of glibc 2.36 started.
    own = ~(1 << 31 | 1 << 32)
    return {name: int(value, 16) & own for name, _, value in lines if "/" not in value}


def test_the_child_starts_with_the_signals_of_a_shell(shell: Shell) -> None:
    found = signals_of_child(shell)
    assert (found["SigBlk"], found["SigIgn"]) == (0, 0)


def test_what_was_ignored_stays_ignored(shell: Shell) -> None:
    def nohup() -> None:
        default_signals()
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    assert signals_of_child(shell, before=nohup)["SigIgn"] == 1 << (signal.SIGHUP - 1)


def test_a_parent_that_ignores_the_end_of_children_does_no_harm(shell: Shell) -> None:
    def reapless() -> None:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)

    assert shell.start("run", "x", "-c", "exit 5", before=reapless).finish()[0] == 5


def test_warnings_that_are_errors_do_no_harm(shell: Shell) -> None:
    assert shell.run("run", "x", "-c", "exit 6", env={"PYTHONWARNINGS": "error"}) == (6, "", "")


def test_limits_of_years_are_no_trouble(shell: Shell) -> None:
    words = ("run", "--max-hold", "1000d", "-w", "1000d", "x", "-c", "exit 6")
    assert shell.run(*words) == (6, "", "")


def test_errors_as_json(shell: Shell) -> None:
    err = shell.run("run", "--json", "-u", "nosuch:", "x", "true")[2]
    assert json.loads(err)["event"] == "ConfigurationError"


def test_a_closed_stderr_is_no_reason_to_fail(shell: Shell) -> None:
    words = [*LOCKNUT, "run", "-v", "x", "--", "sh", "-c", "exit 6"]
    closed = ["sh", "-c", 'exec "$@" 2>&-', "sh", *words]
    done = subprocess.run(closed, env=shell.environment, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 6


HEAVY = {"asyncio", "email", "importlib.metadata", "pathlib", "ssl", "subprocess", "unittest"}


def test_nothing_heavy_is_imported_to_start_a_command(shell: Shell) -> None:
    code = (
        "import sys; from locknut.cli import main; main(sys.argv[1:]); "
        f"print(*sorted({HEAVY} & set(sys.modules)))"
    )
    words = ["run", "-u", "memory:", "-n", "x", "--", "true"]
    done = subprocess.run(
        [sys.executable, "-S", "-c", code, *words],
        env=shell.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert done.stdout.split() == []
