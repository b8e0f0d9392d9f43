"""docs/recipes.md: the lines that people copy into a crontab."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.cli.harness import Shell

PAGE = (Path(__file__).parents[2] / "docs" / "recipes.md").read_text(encoding="utf-8")
LINES = re.findall(r"^[\d*][\d*/ ]+ (locknut run .*)$", PAGE, re.MULTILINE)


@pytest.mark.parametrize("line", LINES)
def test_a_line_of_the_crontab_runs_alone_and_skips_in_silence(shell: Shell, line: str) -> None:
    _, *words, _ = shlex.split(line)
    at_once = [word if word != "1m" else "0" for word in words]
    holder = shell.start(*at_once, "sh", "-c", "echo begun; read line; exit 3")
    assert holder.line() == "begun"
    assert shell.run(*words, "echo", "twice") == (0, "", "")
    holder.stdin.close()
    holder.process.stdin = None
    assert holder.finish() == (3, "", ""), "a failure of the job itself is not hidden"


def test_the_page_has_such_lines() -> None:
    assert len(LINES) == 2
