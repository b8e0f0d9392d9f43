"""docs/cli.md: its examples run, and its tables name what there is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from locknut.cli.exit_codes import Exit
from locknut.cli.more_options import ACQUIRE, CHECK, LEAD, ONCE, RENEW
from locknut.cli.option_table import BREAK, EVERYWHERE, LS, RUN, WAIT
from tests.cli.harness import Shell

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```sh\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("example", EXAMPLES, ids=range(len(EXAMPLES)))
def test_the_examples_run(shell: Shell, tmp_path: Path, example: str) -> None:
    command = tmp_path / "bin" / "locknut"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m locknut "$@"\n')
    command.chmod(0o755)
    environment = {**shell.environment, "PATH": f"{command.parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["sh", "-eu", "-c", example],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_option_and_variable_is_on_the_page() -> None:
    newer = (*ONCE, *LEAD, *ACQUIRE, *RENEW, *CHECK)
    for option in (*EVERYWHERE, *RUN, *LS, *BREAK, *newer):
        for flag in option.flags:
            assert re.search(rf"`[^`]*{re.escape(flag)}\b[^`]*`", PAGE) or flag == "-y", flag
    for option in (*EVERYWHERE, *RUN, *newer):
        assert option.variable is None or f"`{option.variable}`" in PAGE
    assert WAIT[0].flags[-1] in PAGE


def test_every_exit_code_is_on_the_page() -> None:
    for code in Exit:
        assert re.search(rf"^\| (\d+, )?{code.value}\b", PAGE, re.MULTILINE) or code is Exit.OK, (
            code
        )
