"""The verb `completion`: a script for a shell, and the answers to what such a script asks.

The scripts are short and know nothing of verbs and options: at each TAB they hand the words of the
command line to `locknut completion candidates -- WORD...` (bash: `--line TEXT`), whose last word is
the one to complete, and get one candidate per line, with an explanation behind a tab. A line that
begins with a colon stands for what the shell itself completes best.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from locknut.cli import arguments, shell_scripts, target
from locknut.cli.option_table import Option
from locknut.cli.verbs import VERBS, Verb
from locknut.core.values import Capability

Candidates = Iterator[tuple[str, str]]

COMMANDS = ":commands"
FILES = ":files"
_PATIENCE = 2.0
"""Seconds that somebody who pressed TAB waits for the names of locks."""
_VALUES = {
    "on_lost": ("term", "kill", "warn", "signal:USR1"),
    "on_backend_error": ("fail", "skip", "run"),
    "require": tuple(each.value for each in Capability),
}
_GENERAL = {
    "help": "list the verbs",
    "--help": "list the verbs",
    "--version": "print the version",
}


def main(verb: str, argv: Sequence[str]) -> int:
    """The verb, from its words to its exit code."""
    if argv[:1] == ["candidates"] and len(argv) > 1:
        words = _split(argv[2])[1:] if argv[1] == "--line" else argv[2:]
        for candidate, about in _found(words):
            sys.stdout.write(f"{candidate}\t{about}\n" if about else f"{candidate}\n")
        return 0
    options = arguments.of(verb, argv)
    sys.stdout.write(shell_scripts.SCRIPTS[options.name])
    return 0


def _split(line: str) -> list[str]:
    """The words of a line as a shell would take them, whose last one may lack its closing quote.
    Nothing in it is run or looked up.
    """
    import shlex  # only here

    for ending in ("", '"', "'"):
        try:
            words = shlex.split(line + ending)
        except ValueError:
            continue
        return [*words, ""] if line[-1:].isspace() and not ending else words
    return []


class _Line(NamedTuple):
    """What stands on a command line before the word to complete."""

    plain: list[str]
    """Words that are neither options nor their values: before a command, up to it."""
    given: dict[str, str]
    """The values of options."""
    open: Option | None
    """The option whose value comes next."""
    closed: bool
    """Whether a `--` was there: only plain words follow."""


def _found(words: Sequence[str]) -> Candidates:
    *before, word = words or [""]
    if not before:
        yield from _beginning(word, {**{n: v.about for n, v in VERBS.items()}, **_GENERAL})
    elif (verb := VERBS.get(before[0])) is not None:
        yield from _of_verb(verb, _read(verb, before[1:]), word)


def _of_verb(verb: Verb, line: _Line, word: str) -> Candidates:
    if line.open is not None:
        yield from _beginning(word, dict.fromkeys(_VALUES.get(line.open.dest, ()), ""))
    elif verb.runs_command and line.plain:
        commanded = len(line.plain) > 1 or "shell" in line.given
        if not commanded and not line.closed and word.startswith("-"):
            yield from _options(verb, word)
        else:
            yield (FILES if commanded else COMMANDS), ""
    elif word.startswith("-") and not line.closed:
        yield from _options(verb, word)
    elif verb.words and not line.plain:
        yield from _beginning(word, dict.fromkeys(verb.words, ""))
    elif verb.takes_lock and not line.plain:
        yield from _locks(line.given, word)


def _read(verb: Verb, words: Sequence[str]) -> _Line:
    by_flag = {flag: option for option in verb.options for flag in option.flags}
    plain: list[str] = []
    given: dict[str, str] = {}
    waiting: Option | None = None
    closed = False
    for word in words:
        if waiting is not None:
            given[waiting.dest] = word
            waiting = None
        elif closed or (verb.runs_command and len(plain) > 1) or not word.startswith("-"):
            plain.append(word)
        elif word == "--":
            closed = True
        else:
            flag, equals, value = word.partition("=")
            option = by_flag.get(flag)
            if option is not None and option.constant is None:
                waiting = None if equals else option
                given |= {option.dest: value} if equals else {}
    return _Line(plain, given, waiting, closed)


def _options(verb: Verb, word: str) -> Candidates:
    known = {flag: option.help for option in verb.options for flag in option.flags}
    yield from _beginning(word, {**known, "--help": "list the options"})


def _beginning(word: str, candidates: dict[str, str]) -> Candidates:
    yield from (each for each in candidates.items() if each[0].startswith(word))


def _locks(given: dict[str, str], word: str) -> Candidates:
    """The names there are, at the engine that the line names; none if that takes too long."""
    signal.signal(signal.SIGALRM, lambda *_: os._exit(0))
    signal.setitimer(signal.ITIMER_REAL, _PATIENCE)
    words = [f"--{option}={given[option]}" for option in ("url", "namespace") if option in given]
    try:
        with target.locks(arguments.of("ls", words)) as locks:
            found = locks.list()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    for info in found:
        if info.name.startswith(word) and info.name.isprintable():
            yield info.name, ", ".join(map(str, info.holders))
