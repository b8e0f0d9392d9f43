"""`locknut completion`: what is offered, and that real shells offer it when TAB is pressed."""

from __future__ import annotations

import os
import pty
import select
import signal
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from locknut.cli.option_table import EVERYWHERE, RUN
from locknut.cli.verbs import VERBS
from tests.cli.harness import DEADLINE, Shell
from tests.cli.test_contention import hold
from tests.servers.processes import program

PROMPT = "READY> "
RC = {
    "bash": "source <(locknut completion bash)\nbind 'set bell-style none'\nPS1='{}'\n",
    "zsh": "autoload -Uz compinit; compinit -u -D\nsource <(locknut completion zsh)\nPS1='{}'\n"
    "unsetopt zle_bracketed_paste prompt_sp; setopt no_list_beep no_auto_list\n",
    "fish": "locknut completion fish | source\nfunction fish_prompt; printf '{}'; end\n",
}


def offered(shell: Shell, *words: str, line: str | None = None) -> list[str]:
    asked = ("--", *words) if line is None else ("--line", line)
    code, out, err = shell.run("completion", "candidates", *asked)
    assert (code, err) == (0, "")
    return [each.partition("\t")[0] for each in out.splitlines()]


def test_verbs_and_options_are_offered(shell: Shell) -> None:
    assert set(VERBS) < set(offered(shell, ""))
    assert offered(shell, "w") == ["wait"]
    flags = {flag for option in (*RUN, *EVERYWHERE) for flag in option.flags}
    assert set(offered(shell, "run", "-")) == {*flags, "--help"}
    assert offered(shell, "run", "--on-l") == ["--on-lost"]
    assert offered(shell, "run", "--on-lost", "k") == ["kill"]
    assert offered(shell, "run", "--wait", "") == []
    assert offered(shell, "completion", "") == ["bash", "zsh", "fish"]
    assert offered(shell, "nonsense", "") == []


def test_the_command_of_run_is_left_to_the_shell(shell: Shell) -> None:
    assert offered(shell, "run", "-n", "x", "") == [":commands"]
    assert offered(shell, "run", "x", "--", "") == [":commands"]
    assert offered(shell, "run", "x", "--", "cat", "") == [":files"]
    assert offered(shell, "run", "x", "cat", "-") == [":files"]
    assert "--wait" in offered(shell, "run", "x", "--w")


def test_the_other_verbs_with_a_command_are_completed_like_run(shell: Shell) -> None:
    for words in ("once", "x", "--per", "1h"), ("lead", "--restart", "x"):
        assert offered(shell, *words, "--", "") == [":commands"]
        assert offered(shell, *words, "--", "cat", "") == [":files"]
        assert "--grace" in offered(shell, *words, "--g")
    assert offered(shell, "once", "--pe") == ["--per"]
    assert offered(shell, "lead", "--w") == []


def test_the_verbs_for_scripts_are_completed(shell: Shell) -> None:
    hold(shell, "order:1")
    assert offered(shell, "acquire", "ord") == offered(shell, "check", "") == ["order:1"]
    assert "--ttl" in offered(shell, "acquire", "x", "--t")
    assert offered(shell, "release", "") == [], "a secret is in no list"
    assert offered(shell, "check", "x", "--f") == ["--fence"]


def test_names_of_locks_are_offered(shell: Shell, tmp_path: Path) -> None:
    hold(shell, "order:1")
    hold(shell, "order 2")
    hold(shell, "report\n")
    assert offered(shell, "show", "") == ["order 2", "order:1"]  # none that cannot be shown
    assert offered(shell, "run", "-w", "5", "order:") == ["order:1"]
    assert offered(shell, "show", "order:1", "") == []
    elsewhere = f"file://{tmp_path}/elsewhere"
    hold(shell, "-u", elsewhere, "other")
    assert offered(shell, "show", "-u", elsewhere, "") == ["other"]
    assert offered(shell, "show", f"--url={elsewhere}", "--namespace", "n", "") == []


def test_no_label_writes_to_the_terminal(shell: Shell) -> None:
    hold(shell, "x", "--title", "a\x1b[2Jb")
    status, told, _ = shell.run("completion", "candidates", "--", "show", "")
    assert status == 0
    assert told.startswith("x\t")
    assert told.rstrip("\n").replace("\t", "").isprintable()


@pytest.mark.parametrize(
    ("line", "candidates"),
    [
        ("locknut br", ["break"]),
        ("locknut break --f", ["--fence"]),
        ("locknut 'br", ["break"]),
        ('locknut run "x y" --max', ["--max-hold"]),
        ("locknut run x -- ", [":commands"]),
    ],
)
def test_a_line_is_split_as_a_shell_would(shell: Shell, line: str, candidates: list[str]) -> None:
    assert offered(shell, line=line) == candidates


def test_nothing_on_the_line_is_run(shell: Shell, tmp_path: Path) -> None:
    offered(shell, line=f"locknut show $(touch {tmp_path}/made) `touch {tmp_path}/made` ")
    assert not (tmp_path / "made").exists()


def test_an_engine_that_does_not_answer_offers_nothing_and_ends(shell: Shell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # connects, and never says a word
        url = f"redis://127.0.0.1:{silent.getsockname()[1]}/0?socket_timeout=600"
        assert offered(shell, "show", "-u", url, "") == []


def test_an_engine_that_refuses_offers_nothing(shell: Shell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    asked = ("completion", "candidates", "--", "show", "-u", f"redis://127.0.0.1:{port}/0", "")
    code, out, _ = shell.run(*asked)
    assert out == ""
    assert code in {69, 0}  # 0 where a busy machine needs all the patience that there is for a TAB


class Keyboard:
    """An interactive shell on a terminal, with `locknut` on its PATH."""

    def __init__(self, path: str, shell: Shell, folder: Path):
        (folder / "bin").mkdir()
        command = folder / "bin" / "locknut"
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m locknut "$@"\n')
        command.chmod(0o755)
        (folder / ".zshrc").write_text(RC["zsh"].format(PROMPT))
        (folder / "rc").write_text(RC[Path(path).name].format(PROMPT))
        start = {
            "bash": ["--noprofile", "--rcfile", str(folder / "rc"), "-i"],
            "zsh": ["-d", "-i"],
            "fish": ["--private", "-C", f"source {folder}/rc", "-i"],
        }
        environment = {**shell.environment, "PATH": f"{command.parent}:{os.environ['PATH']}"}
        environment |= {"HOME": str(folder), "ZDOTDIR": str(folder), "TERM": "dumb", "LC_ALL": "C"}
        # Without this fish would go through all pages of the manual, in the background.
        (folder / "data" / "fish" / "generated_completions").mkdir(parents=True)
        environment["XDG_DATA_HOME"] = str(folder / "data")
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.execve(path, [path, *start[Path(path).name]], environment)
        self.seen = ""

    def press(self, keys: str) -> None:
        os.write(self.terminal, keys.encode())

    def until(self, text: str) -> None:
        deadline = time.monotonic() + DEADLINE
        while text not in self.seen:
            ready = select.select([self.terminal], [], [], deadline - time.monotonic())[0]
            assert ready, f"{text!r} never came: {self.seen!r}"
            try:
                data = os.read(self.terminal, 4096)
            except OSError:  # how Linux tells that the last user of a terminal has gone
                data = b""
            assert data, f"{text!r} never came: {self.seen!r}"
            self.seen += data.decode(errors="replace")
        self.seen = self.seen.partition(text)[2]

    def close(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.terminal)


@pytest.fixture(params=["bash", "zsh", "fish"])
def keyboard(request: pytest.FixtureRequest, shell: Shell, tmp_path: Path) -> Iterator[Keyboard]:
    made = Keyboard(program(request.param), shell, tmp_path)
    try:
        yield made
    finally:
        made.close()


def test_tab_completes_in_a_real_shell(keyboard: Keyboard, shell: Shell) -> None:
    hold(shell, "order:17")
    keyboard.until(PROMPT)
    keyboard.press("echo locknut-is-here\r")
    keyboard.until("locknut-is-here")
    keyboard.until(PROMPT)
    keyboard.press("locknut sh\t")
    keyboard.until("show ")
    keyboard.press("--verb\t")
    keyboard.until("ose ")
    keyboard.press("order:\t")
    keyboard.until("17")
    keyboard.press("\r")
    keyboard.until("held for")


@pytest.mark.parametrize("keyboard", ["bash"], indirect=True)
def test_a_command_in_a_name_is_not_run(keyboard: Keyboard, shell: Shell, tmp_path: Path) -> None:
    hold(shell, "pay$(touch made)")
    keyboard.until(PROMPT)
    keyboard.press(f"cd {tmp_path}; echo now-$((40 + 2))\r")
    keyboard.until("now-42")
    keyboard.until(PROMPT)
    keyboard.press("locknut show pay\t")
    keyboard.until("made")
    keyboard.press("\r")
    keyboard.until(PROMPT)
    assert not (tmp_path / "made").exists()
