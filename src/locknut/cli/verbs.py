"""Every verb of the command line: what it is for, what it takes, which module performs it.

`--help`, the man page and the completion of shells are all made from this.
"""

from __future__ import annotations

from typing import NamedTuple

from locknut.cli.option_table import (
    BREAK,
    CONFORMANCE,
    EVERYWHERE,
    LS,
    PING,
    REDLOCK,
    RUN,
    WAIT,
    Option,
)


class Verb(NamedTuple):
    """One verb; its operand is a lock's name, a pattern of names, or one of some words."""

    module: str
    about: str
    """One line for the list of verbs."""
    usage: tuple[str, ...]
    description: str
    own: tuple[Option, ...] = ()
    """The options that not every verb has."""
    words: tuple[str, ...] = ()
    """The operands there are, where they are neither names nor patterns."""

    @property
    def options(self) -> tuple[Option, ...]:
        return self.own + (EVERYWHERE if self.module != "completion" else ())

    @property
    def takes_lock(self) -> bool:
        return not self.words and ("NAME" in self.usage[0] or "PATTERN" in self.usage[0])


VERBS = {
    "run": Verb(
        "run",
        "run a command while holding a lock",
        ("[options] NAME -- COMMAND [ARGUMENT ...]", "[options] NAME -c STRING"),
        "Run a command while holding a lock. The exit code is the command's own. "
        "Use --wait to limit the wait for the lock, --max-hold to limit the command.",
        RUN,
    ),
    "ls": Verb(
        "ls",
        "list the locks that are held or waited for",
        ("[options] [PATTERN]",),
        "List the locks that are held or waited for, one line per holder.",
        LS,
    ),
    "show": Verb(
        "ls",
        "show who holds a lock, and who waits for it, in order",
        ("[options] NAME",),
        "Show who holds a lock, and who waits for it, in order.",
    ),
    "break": Verb(
        "break_",
        "take a lock away from its holder by force",
        ("[options] NAME",),
        "Take a lock away from its holder by force. The holder may still be running.",
        BREAK,
    ),
    "wait": Verb(
        "wait",
        "wait until a lock is free, without taking it",
        ("[options] NAME",),
        "Wait until nobody holds the lock, without taking it.",
        WAIT,
    ),
    "ping": Verb(
        "ping",
        "tell whether the engine works",
        ("[options]",),
        "Tell whether the engine works: take a lock and release it.",
        PING,
    ),
    "conformance": Verb(
        "conformance",
        "try every rule of the contract on a server",
        ("[options] [URL]",),
        "Try every rule that Locknut relies on at the engine of a URL, and print which of them "
        "hold there. It needs pytest, takes minutes, and touches only locks in namespaces of its "
        "own.",
        CONFORMANCE,
    ),
    "schema": Verb(
        "schema",
        "print the statements that make an engine's table",
        ("[options]",),
        "Print the statements that make the table of a database engine, for an administrator who "
        "makes it. Nothing is asked of the database.",
    ),
    "redlock": Verb(
        "redlock_",
        "look after the nodes of a Redlock",
        ("[options] status|init",),
        "Look after the nodes of a redlock: URL. `status` lists them and whether they vote; "
        "`init` lets the nodes of a new set vote at once.",
        REDLOCK,
        ("status", "init"),
    ),
    "completion": Verb(
        "completion",
        "print the completion script of a shell",
        ("bash|zsh|fish",),
        "Print a script that completes verbs, options and the names of locks in a shell.",
        (),
        ("bash", "zsh", "fish"),
    ),
}
