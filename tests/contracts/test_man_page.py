"""docs/locknut.1: it says what the command line knows, and man can read it."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from locknut.cli.exit_codes import Exit
from locknut.cli.verbs import VERBS
from tests.contracts.sources import ROOT
from tests.servers.processes import program

sys.path.append(str(ROOT / "scripts"))
import write_man_page  # a script, beside the package

PAGE = write_man_page.PAGE.read_text(encoding="utf-8")
PLAIN = PAGE.replace("\\-", "-")


def test_it_is_up_to_date() -> None:
    assert write_man_page.page() == PAGE, "run scripts/write_man_page.py"


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_and_option_is_on_it(verb: str) -> None:
    assert f".SS {verb}\n{VERBS[verb].description}" in PLAIN.replace("\\(aq", "'")
    for option in VERBS[verb].options:
        assert all(f"\\fB{flag}\\fR" in PLAIN for flag in option.flags), option.flags
        assert option.variable is None or f"\\fB{option.variable}\\fR" in PLAIN


@pytest.mark.parametrize("code", sorted(set(Exit) - {Exit.OK}))
def test_every_exit_code_is_on_it(code: int) -> None:
    codes = PLAIN.partition(".SH EXIT STATUS")[2].partition(".SH ")[0]
    assert re.search(rf"\\fB(\d+, )*{code}(, \d+)*\\fR", codes)


def test_man_reads_it_without_a_warning() -> None:
    done = subprocess.run(
        [program("groff"), "-man", "-Tascii", "-ww", str(write_man_page.PAGE)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    assert "run a command while holding a lock" in done.stdout
