"""Every option of every verb: its spellings, the variable behind it, its default, its one line.

flock's letters where flock has them. The variables of `run` start with LOCKNUT_RUN_, because names
like LOCKNUT_TTL are what the child is told, and a nested `locknut run` must not take them as
orders.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from locknut.cli import readings
from locknut.cli.exits import Exit

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


def _duration(
    dest: str, *flags: str, explain: str, variable: str, default: object = None
) -> Option:
    return Option(dest, flags, explain, readings.duration, "DURATION", variable, default)


def _switch(dest: str, *flags: str, explain: str, variable: str | None = None) -> Option:
    return Option(dest, flags, explain, readings.flag, None, variable, default=False, constant=True)


EVERYWHERE = (
    Option("url", ("-u", "--url"), "the engine (file:)", str, "URL", "LOCKNUT_URL"),
    Option(
        "namespace", ("--namespace",), "keeps equal names apart", str, "NS", "LOCKNUT_NAMESPACE"
    ),
    _switch("quiet", "-q", "--quiet", explain="nothing but errors", variable="LOCKNUT_QUIET"),
    _switch("verbose", "-v", "--verbose", explain="say more", variable="LOCKNUT_VERBOSE"),
    _switch("json", "--json", explain="speak JSON", variable="LOCKNUT_JSON"),
)

RUN = (
    Option(
        "wait", ("-n", "--nonblock"), "do not wait: exit with the code of -E if busy", constant=0.0
    ),
    _duration(
        "wait",
        *("-w", "--wait", "--timeout"),
        explain="wait at most so long; 0 is -n (for ever)",
        variable="LOCKNUT_RUN_WAIT",
        default=NEVER,
    ),
    Option(
        "conflict_exit_code",
        ("-E", "--conflict-exit-code"),
        "the code if the lock was not acquired (75)",
        readings.exit_code,
        "CODE",
        "LOCKNUT_RUN_CONFLICT_EXIT_CODE",
        int(Exit.BUSY),
    ),
    _switch("shared", "-s", "--shared", explain="share the lock with others that share it"),
    Option("shared", ("-x", "--exclusive"), "share it with nobody (the default)", constant=False),
    Option("slots", ("-j", "--slots"), "let N run at a time", readings.slots, "N"),
    Option("shell", ("-c", "--command"), "run STRING by /bin/sh", str, "STRING"),
    _duration(
        "ttl",
        "--ttl",
        explain="how long the lock outlives us (the engine's own)",
        variable="LOCKNUT_RUN_TTL",
    ),
    _duration(
        "at_least",
        "--at-least",
        explain="keep the lock so long even if the command is faster (0)",
        variable="LOCKNUT_RUN_AT_LEAST",
        default=0.0,
    ),
    _duration(
        "max_hold",
        "--max-hold",
        explain="stop the command after so long and exit with 124 (never)",
        variable="LOCKNUT_RUN_MAX_HOLD",
        default=NEVER,
    ),
    _duration(
        "grace",
        "--grace",
        explain="from SIGTERM to SIGKILL (5s, at most a third of the ttl)",
        variable="LOCKNUT_RUN_GRACE",
    ),
    Option(
        "on_lost",
        ("--on-lost",),
        "when the lock is lost: term, kill, warn or signal:USR1 (term)",
        readings.on_lost,
        "POLICY",
        "LOCKNUT_RUN_ON_LOST",
        readings.on_lost("term"),
    ),
    Option(
        "on_backend_error",
        ("--on-backend-error",),
        "without an engine: fail, run (without the lock!) or skip (fail)",
        readings.backend_error,
        "POLICY",
        "LOCKNUT_RUN_ON_BACKEND_ERROR",
        "fail",
    ),
    _switch("fair", "--fair", explain="first come, first served", variable="LOCKNUT_RUN_FAIR"),
    Option(
        "owner",
        ("--owner", "--label"),
        "who this is, for others to see (the user's name)",
        str,
        "TEXT",
        "LOCKNUT_RUN_OWNER",
        "",
    ),
    Option(
        "require",
        ("--require",),
        "refuse an engine that lacks one of these: fencing,durable,...",
        readings.capabilities,
        "LIST",
        "LOCKNUT_RUN_REQUIRE",
        (),
    ),
)

LS = (
    _switch("waiting", "--waiting", explain="only what somebody waits for"),
    _switch("watch", "--watch", explain="again and again, until interrupted"),
    Option(
        "every",
        ("--every",),
        "how often with --watch (1s)",
        readings.duration,
        "DURATION",
        None,
        1.0,
    ),
)

BREAK = (
    Option("fence", ("--fence",), "the hold to break, as `show` tells it", readings.whole, "N"),
    Option("reason", ("--reason",), "why, for the record", str, "TEXT", default=""),
    _switch("yes", "-y", "--yes", explain="do not ask"),
)

REDLOCK = (
    Option(
        "node", ("--node",), "`init` of this node alone, as `status` tells it", str, "HOST:PORT"
    ),
    _switch(
        "force", "--force", explain="`init` whatever max_ttl or list of nodes other clients have"
    ),
    _switch("yes", "-y", "--yes", explain="do not ask before `init`"),
)

WAIT = (
    _duration(
        "wait",
        *("-w", "--wait", "--timeout"),
        explain="wait at most so long (for ever)",
        variable="LOCKNUT_WAIT",
        default=NEVER,
    ),
)
