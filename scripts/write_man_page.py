"""Writes docs/locknut.1, the man page, from the verbs and options that the command line knows.

    python3 scripts/write_man_page.py

Exit codes and examples come from docs/cli.md. A test fails when the page is older than either.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "locknut.1"
sys.path.insert(0, str(ROOT / "src"))

from locknut import __version__  # noqa: E402  # from this tree, also where nothing is installed
from locknut.cli.option_table import EVERYWHERE, Option  # noqa: E402
from locknut.cli.verbs import VERBS, Verb  # noqa: E402

_ABOUT = """\
\\fBlocknut run\\fR runs a command while it holds a lock, so that only one of several processes or
machines runs it at a time. The other verbs look at locks and break them. The locks live where
\\fB\\-\\-url\\fR or \\fBLOCKNUT_URL\\fR says; without either they are files in the home directory
of this user, which other users and other machines do not see.
.PP
A \\fIDURATION\\fR is a number of seconds (0.5, 90) or has units (250ms, 1m30s, 2h).
"""


def page() -> str:
    """The whole page, as roff."""
    guide = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    parts = [
        f'.TH LOCKNUT 1 "" "Locknut {__version__}" "User Commands"',
        ".SH NAME\nlocknut \\- run a command while holding a lock, across processes and machines",
        ".SH SYNOPSIS\n" + "\n.br\n".join(_synopsis(*each) for each in VERBS.items()),
        ".SH DESCRIPTION\n" + _ABOUT.rstrip("\n"),
        ".SH VERBS\n" + "\n".join(_verb(*each) for each in VERBS.items()),
        ".SH OPTIONS OF EVERY VERB\n" + "\n".join(map(_option, EVERYWHERE)),
        ".SH EXIT STATUS\n" + "\n".join(_codes(guide)),
        ".SH ENVIRONMENT\n" + "\n".join(_variables()),
        ".SH EXAMPLES\n.nf\n" + "\n".join(map(_plain, _example(guide))) + "\n.fi",
        ".SH SEE ALSO\n.BR flock (1),\n.BR timeout (1)",
    ]
    return "\n".join(parts) + "\n"


def _synopsis(name: str, verb: Verb) -> str:
    return "\n.br\n".join(f"\\fBlocknut {name}\\fR {_plain(usage)}" for usage in verb.usage)


def _verb(name: str, verb: Verb) -> str:
    options = "\n".join(map(_option, verb.own))
    return f".SS {name}\n{_plain(verb.description)}" + (f"\n{options}" if options else "")


def _option(option: Option) -> str:
    value = f" \\fI{_plain(option.metavar)}\\fR" if option.metavar else ""
    flags = ", ".join(f"\\fB{_plain(flag)}\\fR" for flag in option.flags)
    variable = f" Variable: \\fB{_plain(option.variable)}\\fR." if option.variable else ""
    return f".TP\n{flags}{value}\n{_sentence(option.help)}{variable}"


def _sentence(text: str) -> str:
    return _plain(text[0].upper() + text[1:] + ".")


def _codes(guide: str) -> list[str]:
    table = guide.partition("## Exit codes")[2].partition("\n\n|")[2].partition("\n\n")[0]
    rows = [row.strip("|").split("|") for row in table.splitlines()[2:]]
    return [f".TP\n\\fB{_plain(_bare(code))}\\fR\n{_sentence(_bare(text))}" for code, text in rows]


def _variables() -> list[str]:
    found = {
        option.variable: f"locknut {name}: {option.flags[-1]}"
        for name, verb in reversed(VERBS.items())
        for option in verb.own
        if option.variable
    }
    everywhere = {option.variable: option.flags[-1] for option in EVERYWHERE if option.variable}
    known = {**everywhere, **dict(sorted(found.items()))}
    return [f".TP\n\\fB{name}\\fR\n{_plain(use)}" for name, use in known.items()]


def _example(guide: str) -> list[str]:
    return guide.partition("```sh\n")[2].partition("```")[0].splitlines()


def _bare(text: str) -> str:
    """Without what Markdown adds."""
    return re.sub(r"[`*]", "", text).strip()


def _plain(text: str) -> str:
    """The text, as roff prints it unchanged."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")
    return "\\&" + escaped if escaped.startswith(".") else escaped


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"Wrote {PAGE.relative_to(ROOT)}")
