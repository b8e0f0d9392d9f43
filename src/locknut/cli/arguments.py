"""What can be written after `locknut VERB`, and what it then means.

What is not on the command line is looked up in the environment, then comes the default. A mistake
is reported in one line and ends with code 64.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from locknut.cli.exit_codes import Exit
from locknut.cli.option_table import NEVER
from locknut.cli.option_values import OnLost
from locknut.cli.verbs import VERBS, Verb
from locknut.core.validation import nearest
from locknut.errors import ConfigurationError


class Options(argparse.Namespace):
    """What was asked for; each verb has its own part of these."""

    url: str | None
    namespace: str | None
    quiet: bool
    verbose: bool
    json: bool
    from_environment: frozenset[str]
    """Which of these come from variables, not from the command line."""

    name: str
    command: list[str]
    wait: float
    conflict_exit_code: int
    shared: bool
    slots: int | None
    shell: str | None
    ttl: float | None
    at_least: float
    max_hold: float
    grace: float | None
    on_lost: OnLost
    on_backend_error: str
    fair: bool
    owner: str
    title: str
    require: Sequence[str]

    per: float | None
    at: float | None
    retry: bool
    restart: bool

    hold: str | None
    hold_ttl: float | None

    pattern: str | None
    waiting: bool
    watch: bool
    every: float
    since: float | None
    follow: bool
    fence: int | None
    reason: str
    yes: bool
    node: str | None
    force: bool

    address: str | None
    only: str
    colour: str

    ignore: Sequence[str]
    strict: bool

    locks: int | None
    needed_ttl: float
    hosts: int
    processes: int
    waiters: int
    rate: int
    new_names: bool
    cores: int

    addresses: Sequence[str]
    host: str
    port: int
    allow_break: bool
    passphrase_file: str
    names: Sequence[str]
    urls_file: str


_NOT_ASKED = {
    "wait": NEVER,
    "conflict_exit_code": int(Exit.OK),
    "shared": False,
    "slots": None,
    "at_least": 0.0,
    "max_hold": NEVER,
    "on_backend_error": "fail",
    "fair": False,
}
"""What `run` can be asked, and other verbs with a command cannot."""


class _Formatter(argparse.HelpFormatter):
    """Of one width: argparse would ask for the terminal's, with modules that take long to import,
    for each option that is added.
    """

    def __init__(self, prog: str):
        super().__init__(prog, max_help_position=30, width=90)


class _Parser(argparse.ArgumentParser):
    """argparse with our exit code, and without guessing at shortened options."""

    def error(self, message: str) -> NoReturn:
        sys.stderr.write(f"locknut: {message} (try: {self.prog} --help)\n")
        raise SystemExit(Exit.USAGE)


def of_command(verb: str, argv: Sequence[str]) -> Options:
    """`run [options] NAME [options] -- COMMAND ...`; as with flock, the `--` may be left out."""
    parser = parser_of(verb)
    ours, command = split(argv, VERBS[verb])
    _explain_timeout(parser, ours)
    found = _settle(parser, verb, ours)
    for dest, value in _NOT_ASKED.items():
        vars(found).setdefault(dest, value)
    found.command = command if found.shell is None else ["/bin/sh", "-c", found.shell]
    _check(parser, found, command)
    return found


def _explain_timeout(parser: _Parser, ours: Sequence[str]) -> None:
    """`--timeout` could mean either limit, and a wrong guess shows only when it is too late."""
    if any(word.partition("=")[0] == "--timeout" for word in ours):
        parser.error(
            "--timeout could mean two things: use --wait DURATION to limit the wait for the lock, "
            "or --max-hold DURATION to limit how long the command may run"
        )


def of(verb: str, argv: Sequence[str]) -> Options:
    """What was asked of any other verb."""
    return _settle(parser_of(verb), verb, argv)


def parser_of(verb: str) -> _Parser:
    """What reads the words after this verb."""
    prog, known = f"locknut {verb}", VERBS[verb]
    usage = "\n       ".join(f"{prog} {each}" for each in known.usage)
    parser = _Parser(prog, usage, known.description, allow_abbrev=False, formatter_class=_Formatter)
    if known.words:
        parser.add_argument(
            "name", metavar="|".join(known.words), choices=known.words, help="what to do"
        )
    elif "NAME" in known.usage[0]:
        parser.add_argument("name", metavar="NAME", help="the name of the lock")
    elif "HOLD" in known.usage[0]:
        about = "the text that `acquire` or `renew` printed; better in $LOCKNUT_HOLD: ps shows it"
        parser.add_argument("hold", metavar="HOLD", nargs="?", help=about)
    elif "PATTERN" in known.usage[0]:
        about = "list only names like this: order:*"
        parser.add_argument("pattern", metavar="PATTERN", nargs="?", help=about)
    elif "URL ..." in known.usage[0]:
        about = "the engines; a URL with a password is better given in --urls-file"
        parser.add_argument("addresses", metavar="URL", nargs="*", help=about)
    elif "URL" in known.usage[0]:
        about = "the engine; a URL with a password is better given in $LOCKNUT_URL"
        parser.add_argument("address", metavar="URL", nargs="?", help=about)
    for option in known.options:
        shown = option.help + (f" [${option.variable}]" if option.variable else "")
        if option.constant is None:
            parser.add_argument(*option.flags, dest=option.dest, metavar=option.metavar, help=shown)
        else:
            constant = option.constant
            parser.add_argument(
                *option.flags, dest=option.dest, action="store_const", const=constant, help=shown
            )
    return parser


def split(argv: Sequence[str], verb: Verb = VERBS["run"]) -> tuple[list[str], list[str]]:
    """Our own words, and the command: it starts after `--`, or with the second plain word."""
    named = False
    at = 0
    while at < len(argv) and argv[at] != "--":
        if argv[at].startswith("-"):
            at += 2 if _wants_next(argv[at], verb) else 1
        elif not named:
            named = True
            at += 1
        else:
            return list(argv[:at]), list(argv[at:])
    return list(argv[:at]), list(argv[at + 1 :])


def _wants_next(word: str, verb: Verb) -> bool:
    """Whether the value of this option is the next word: not after `--wait=5` or `-w5`."""
    with_value = {
        flag for option in verb.options if option.constant is None for flag in option.flags
    }
    if word.startswith("--"):
        return word in with_value
    # Letters may be put together, as -nq; the first that takes a value takes the rest of the word.
    first = next((at for at, letter in enumerate(word[1:], 1) if f"-{letter}" in with_value), None)
    return first == len(word) - 1


def _settle(parser: _Parser, verb: str, argv: Sequence[str]) -> Options:
    """Texts become values, and what was not given comes from the environment or is the default."""
    found, unknown = parser.parse_known_args(argv, Options())
    if unknown:
        parser.error(_too_much(verb, unknown[0]))
    found.from_environment = frozenset()
    for option in VERBS[verb].options:
        text, source = getattr(found, option.dest), "/".join(option.flags)
        if text is None and option.variable is not None:
            text, source = os.environ.get(option.variable) or None, f"${option.variable}"
            found.from_environment |= {option.dest} if text is not None else set()
        if isinstance(text, str):
            try:
                setattr(found, option.dest, option.read(text))
            except ConfigurationError as mistake:
                parser.error(f"{source}: {mistake.message}")
        elif text is None:
            setattr(found, option.dest, option.default)
    return found


def _too_much(verb: str, word: str) -> str:
    if not word.startswith("-"):
        return f"there is one argument too many: {word!r}"
    flag = word.partition("=")[0]
    known = [
        each for option in VERBS[verb].options for each in option.flags if len(each) > len("-x")
    ]
    return f"there is no option {flag!r}{nearest(flag, known, cutoff=0.7)}"  # all begin with dashes


def _check(parser: _Parser, found: Options, command: list[str]) -> None:
    if found.shell is not None and command:
        parser.error("give the command either with -c or after --, not both")
    if not found.command:
        parser.error("no command given: write it after --")
    if found.shared and found.slots is not None:
        parser.error("--shared and --slots exclude each other")
    if found.shared and found.fair:
        parser.error("--fair is not for --shared: readers enter together")
    if found.ttl is not None and found.grace is not None and 3 * found.grace >= found.ttl:
        needs = "the rest of the ttl is for renewing"
        given = f"--grace {found.grace:g}s, --ttl {found.ttl:g}s"
        parser.error(f"--grace must be below a third of --ttl ({needs}), got {given}")
