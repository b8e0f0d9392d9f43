"""Every option of every verb: its spellings, the variable behind it, its default, its one line.

flock's letters where flock has them. The variables of `run` start with LOCKNUT_RUN_, because names
like LOCKNUT_TTL are set for the child, and a nested `locknut run` must not take them as
orders.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from locknut.cli import option_values
from locknut.cli.exit_codes import Exit

NEVER = float("inf")


class Option(NamedTuple):
    """One option; `constant` is the value of one that takes none."""

    dest: str
    flags: tuple[str, ...]
    help: str
    read: Callable[[str], Any] = str
    metavar: str | None = None
    variable: str | None = None
    default: object = None
    constant: object = None


def duration(dest: str, *flags: str, explain: str, variable: str, default: object = None) -> Option:
    return Option(dest, flags, explain, option_values.duration, "DURATION", variable, default)


def switch(dest: str, *flags: str, explain: str, variable: str | None = None) -> Option:
    return Option(
        dest, flags, explain, option_values.flag, None, variable, default=False, constant=True
    )


EVERYWHERE = (
    Option(
        "url",
        ("-u", "--url"),
        "where the locks live (default: file:, for this user on this machine)",
        str,
        "URL",
        "LOCKNUT_URL",
    ),
    Option(
        "namespace",
        ("--namespace",),
        "a prefix that keeps equal lock names of two projects apart (default: locknut)",
        str,
        "NS",
        "LOCKNUT_NAMESPACE",
    ),
    switch("quiet", "-q", "--quiet", explain="print errors only", variable="LOCKNUT_QUIET"),
    switch(
        "verbose",
        "-v",
        "--verbose",
        explain="print more about what happens",
        variable="LOCKNUT_VERBOSE",
    ),
    switch("json", "--json", explain="print JSON instead of text", variable="LOCKNUT_JSON"),
)

SHELL_AND_TTL = (
    Option("shell", ("-c", "--command"), "run STRING with /bin/sh", str, "STRING"),
    duration(
        "ttl",
        "--ttl",
        explain="how long the lock stays held if locknut dies (default: the engine's)",
        variable="LOCKNUT_RUN_TTL",
    ),
)
MAX_HOLD = duration(
    "max_hold",
    "--max-hold",
    explain="stop the command after DURATION and exit with 124 (default: none)",
    variable="LOCKNUT_RUN_MAX_HOLD",
    default=NEVER,
)
SAFETY = (
    duration(
        "grace",
        "--grace",
        explain="the time between SIGTERM and SIGKILL (default: 5s, at most a third of the ttl)",
        variable="LOCKNUT_RUN_GRACE",
    ),
    Option(
        "on_lost",
        ("--on-lost",),
        "what to do if the lock is lost: term, kill, warn or signal:USR1 (default: term)",
        option_values.on_lost,
        "POLICY",
        "LOCKNUT_RUN_ON_LOST",
        option_values.on_lost("term"),
    ),
    Option(
        "on_backend_error",
        ("--on-backend-error",),
        "if the engine cannot be used: fail, skip, or run without the lock (default: fail)",
        option_values.backend_error,
        "POLICY",
        "LOCKNUT_RUN_ON_BACKEND_ERROR",
        "fail",
    ),
)
SHOWN = (
    Option(
        "owner",
        ("--owner", "--label"),
        "the name of the holder, for others to see (default: the user's name)",
        str,
        "TEXT",
        "LOCKNUT_RUN_OWNER",
        "",
    ),
    Option(
        "title",
        ("--title",),
        "what others see as the command; - shows nothing (default: the command line)",
        str,
        "TEXT",
        "LOCKNUT_RUN_TITLE",
        "",
    ),
    Option(
        "require",
        ("--require",),
        "refuse an engine that lacks one of these capabilities: fencing,durable,...",
        option_values.capabilities,
        "LIST",
        "LOCKNUT_RUN_REQUIRE",
        (),
    ),
)

INTO = (
    Option(
        "wait",
        ("-n", "--nonblock"),
        "do not wait for the lock: if it is held, exit at once with the code of -E",
        constant=0.0,
    ),
    duration(
        "wait",
        *("-w", "--wait"),
        explain="wait for the lock at most DURATION; 0 is the same as -n (default: forever)",
        variable="LOCKNUT_RUN_WAIT",
        default=NEVER,
    ),
    Option(
        "conflict_exit_code",
        ("-E", "--conflict-exit-code"),
        "the exit code if the lock was not acquired (default: 75)",
        option_values.exit_code,
        "CODE",
        "LOCKNUT_RUN_CONFLICT_EXIT_CODE",
        int(Exit.BUSY),
    ),
    switch(
        "shared", "-s", "--shared", explain="hold the lock together with other --shared holders"
    ),
    Option("shared", ("-x", "--exclusive"), "hold the lock alone (the default)", constant=False),
    Option(
        "slots",
        ("-j", "--slots"),
        "let up to N commands run at the same time",
        option_values.slots,
        "N",
    ),
)
"""How the lock is waited for, and how it is shared."""

RUN = (
    *INTO,
    *SHELL_AND_TTL,
    duration(
        "at_least",
        "--at-least",
        explain="keep the lock at least DURATION, even if the command is faster (default: 0)",
        variable="LOCKNUT_RUN_AT_LEAST",
        default=0.0,
    ),
    MAX_HOLD,
    *SAFETY,
    switch(
        "fair", "--fair", explain="strictly first come, first served", variable="LOCKNUT_RUN_FAIR"
    ),
    *SHOWN,
)

WATCH = (
    switch("watch", "--watch", explain="look again and again, until interrupted"),
    Option(
        "every",
        ("--every",),
        "the pause between two looks of --watch (default: 1s)",
        option_values.duration,
        "DURATION",
        None,
        1.0,
    ),
)
LS = (
    switch("waiting", "--waiting", explain="list only the locks that somebody waits for"),
    *WATCH,
)
DEADLOCKS = (
    *WATCH,
    Option(
        "urls_file",
        ("--urls-file",),
        "look at the engines whose URLs are the lines of FILE as well",
        str,
        "FILE",
        None,
        "",
    ),
)

BREAK = (
    Option(
        "fence",
        ("--fence",),
        "break the hold with this fence; `locknut show` prints it",
        option_values.whole,
        "N",
    ),
    Option(
        "reason",
        ("--reason",),
        "why the lock is broken; the holder sees it",
        str,
        "TEXT",
        default="",
    ),
    switch("yes", "-y", "--yes", explain="do not ask for confirmation"),
)

WAIT = (
    duration(
        "wait",
        *("-w", "--wait", "--timeout"),
        explain="wait at most DURATION (default: forever)",
        variable="LOCKNUT_WAIT",
        default=NEVER,
    ),
)
