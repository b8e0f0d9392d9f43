"""Every verb of the command line: what it is for, what it takes, which module performs it.

`--help`, the man page and the completion of shells are all made from this.
"""

from __future__ import annotations

from typing import NamedTuple

from locknut.cli.engine_options import CAPACITY, CONFORMANCE, DOCTOR, PING, REDLOCK
from locknut.cli.history_options import EVENTS
from locknut.cli.more_options import ACQUIRE, CHECK, LEAD, ONCE, RENEW
from locknut.cli.option_table import (
    BREAK,
    DEADLOCKS,
    EVERYWHERE,
    LS,
    RUN,
    WAIT,
    Option,
)
from locknut.cli.view_options import DASH, TOP


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
    def runs_command(self) -> bool:
        return "COMMAND" in self.usage[0]

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
    "once": Verb(
        "once",
        "run a command at most once for each slot of a schedule, on all hosts",
        (
            "[options] NAME --per DURATION -- COMMAND [ARGUMENT ...]",
            "[options] NAME --at TIME -- COMMAND [ARGUMENT ...]",
        ),
        "Run a command at most once for each slot of a schedule, on all hosts together: for cron. "
        "A start that is skipped says so and exits with 0; otherwise the exit code is the "
        "command's own.",
        ONCE,
    ),
    "lead": Verb(
        "lead",
        "run a command on one host, with the others standing by",
        ("[options] NAME -- COMMAND [ARGUMENT ...]", "[options] NAME -c STRING"),
        "Stand by until nobody else leads, then run the command for as long as we lead. The exit "
        "code is the command's own. If the lock is lost the command is stopped.",
        LEAD,
    ),
    "acquire": Verb(
        "hold",
        "take a lock for a script, without running a command",
        ("[options] NAME --ttl DURATION",),
        "Take a lock that no process keeps, and print a text for `renew` and `release`. The text "
        "is a secret. The lock is free again when its ttl is over.",
        ACQUIRE,
    ),
    "renew": Verb(
        "hold",
        "keep what `acquire` took for longer",
        ("[options] [HOLD] --ttl DURATION",),
        "Keep what `acquire` took, for a new ttl from now on, and print the new text: the old one "
        "is worth nothing then. Without HOLD the text is in $LOCKNUT_HOLD. The code is 79 if the "
        "lock is no longer held by it.",
        RENEW,
    ),
    "release": Verb(
        "hold",
        "release what `acquire` took",
        ("[options] [HOLD]",),
        "Release what `acquire` took. Without HOLD the text is in $LOCKNUT_HOLD. The code is 79 if "
        "the lock was no longer held by it.",
    ),
    "check": Verb(
        "check",
        "tell by the exit code whether a lock is free",
        ("[options] NAME",),
        "Tell whether a lock is free (0) or held (75), and by whom.",
        CHECK,
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
    "deadlocks": Verb(
        "deadlocks",
        "tell whether anybody waits in a circle",
        ("[options] [URL ...]",),
        "Tell whether there are deadlocks: threads, tasks or processes that wait for each other's "
        "locks. With several URLs, one that leads through several engines is found as well. The "
        "exit code is 1 if there is one.",
        DEADLOCKS,
    ),
    "break": Verb(
        "break_",
        "take a lock away from its holder by force",
        ("[options] NAME",),
        "Take a lock away from its holder by force. The holder may still be running.",
        BREAK,
    ),
    "events": Verb(
        "events_",
        "print what happened to locks: grants, losses, breaks",
        ("[options] [PATTERN]",),
        "Print what happened to the locks here, the newest last, one line per event. An engine "
        "keeps the events of programs that ask for it: history=1000, or ?history=1000 in the URL.",
        EVENTS,
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
    "doctor": Verb(
        "doctor",
        "look for what makes locks unsafe or slow on an engine",
        ("[options] [URL]",),
        "Look for what makes locks unsafe or slow on an engine: its settings, rights, versions, "
        "clocks and replicas. It takes and releases one lock, and only looks otherwise.",
        DOCTOR,
    ),
    "capacity": Verb(
        "capacity",
        "tell what a number of locks would need of an engine",
        ("[options] --locks N [URL]",),
        "Tell what a number of locks would need: requests per second, processors, memory, "
        "connections, and whether one server is enough. It computes from what was measured, and "
        "asks no engine. The URL may be just the name of an engine. The exit code is 1 if one "
        "server, or one process, is not enough.",
        CAPACITY,
    ),
    "top": Verb(
        "top",
        "watch locks live in the terminal",
        ("[options] [PATTERN]",),
        "Watch the locks that are held or waited for, live: who holds them, who waits, what "
        "happened. It needs the extra `tui`.",
        TOP,
    ),
    "dash": Verb(
        "dash",
        "serve pages about locks for a browser",
        ("[options] [URL ...]",),
        "Serve pages about the locks of one or several engines, for a browser on this machine. It "
        "only looks, unless --allow-break is given. It needs the extra `dash`.",
        DASH,
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
