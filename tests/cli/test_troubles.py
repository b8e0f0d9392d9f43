"""Ordinary troubles of a machine: each ends with a clear line and its code, never with 70."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.harness import LOCKNUT, Shell
from tests.cli.test_contention import hold, let_go

UNWRITABLE = {"LOCKNUT_URL": "file:///sys/kernel"}
"""A directory that is there, and in which not even root can make a file."""


def test_a_directory_that_cannot_be_written_to_is_77(shell: Shell) -> None:
    for words in (("run", "x", "--", "echo", "ran"), ("ls",), ("show", "x"), ("wait", "x")):
        code, out, err = shell.run(*words, env=UNWRITABLE)
        assert (code, out) == (77, "")
        assert err.startswith("locknut: cannot use /sys/kernel for lock files: ")
        assert err.count("\n") == 1


@pytest.mark.parametrize(("policy", "out"), [("skip", ""), ("run", "ran\n")])
def test_what_to_do_without_an_engine_applies(shell: Shell, policy: str, out: str) -> None:
    words = ("run", "--on-backend-error", policy, "x", "--", "echo", "ran")
    assert shell.run(*words, env=UNWRITABLE)[:2] == (0, out)


def test_a_url_with_a_nul_is_78(shell: Shell, tmp_path: Path) -> None:
    code, _, err = shell.run("run", "-u", f"file://{tmp_path}/a%00b", "x", "true")
    assert code == 78
    assert "NUL" in err


def test_an_empty_command_is_told(shell: Shell) -> None:
    code, _, err = shell.run("run", "x", "--", "")
    assert code == 127
    assert err == "locknut: cannot run '': No such file or directory\n"


def test_a_name_that_stdout_lacks_is_escaped(shell: Shell) -> None:
    holder, _ = hold(shell, "caf\u00e9")
    for verb in (("ls",), ("show", "caf\u00e9")):
        code, out, err = shell.run(*verb, env={"PYTHONIOENCODING": "ascii"})
        assert (code, err) == (0, "")
        assert "caf\\xe9" in out
    let_go(holder)


@pytest.mark.parametrize(
    "start",
    [{}, {"LC_CTYPE": "C"}, {"LC_CTYPE": "C.UTF-8"}, {"LC_ALL": "C"}, {"LANG": "C"}],
    ids=str,
)
def test_the_environment_of_the_command_is_not_changed(shell: Shell, start: dict[str, str]) -> None:
    plain = {**start, "PYTHONPATH": shell.environment["PYTHONPATH"], "HOME": "/nonexistent"}
    plain["LOCKNUT_URL"] = shell.environment["LOCKNUT_URL"]
    done = subprocess.run(
        [*LOCKNUT, "run", "x", "--", "/usr/bin/env", "-0"],
        env=plain,
        capture_output=True,
        check=True,
    )
    seen = dict(line.split("=", 1) for line in done.stdout.decode().split("\0") if line)
    told = {name for name in seen if name.startswith("LOCKNUT_") and name != "LOCKNUT_URL"}
    assert {name: value for name, value in seen.items() if name not in told} == plain


WITHOUT_PROC = """
import os, sys
from locknut.backends.file import ofd_locks

def without_proc(path, *rest, **options):
    if str(path).startswith("/proc/"):
        raise FileNotFoundError(2, "No such file or directory", path)
    return opened(path, *rest, **options)

opened, os.open = os.open, without_proc
print(ofd_locks.works(sys.argv[1]), os.listdir(sys.argv[1]))
"""


def test_the_kernel_is_asked_without_proc_too(shell: Shell, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_PROC, str(tmp_path)],
        env=shell.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "True []\n"
