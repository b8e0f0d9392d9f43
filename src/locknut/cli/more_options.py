"""The options of the verbs that were made after `run`: what is like it there is the same here."""

from __future__ import annotations

from locknut.cli import option_values
from locknut.cli.option_table import (
    BREAK,
    INTO,
    MAX_HOLD,
    SAFETY,
    SHELL_AND_TTL,
    SHOWN,
    Option,
    duration,
    switch,
)

ONCE = (
    duration(
        "per",
        "--per",
        explain="the length of a slot, counted from 1970 in UTC: 15m, 24h (with --at: 24h)",
        variable="LOCKNUT_ONCE_PER",
    ),
    Option(
        "at",
        ("--at",),
        "the time of the schedule that this start is for: 2026-11-17T03:00Z, or a date",
        option_values.moment,
        "TIME",
        "LOCKNUT_ONCE_AT",
    ),
    switch(
        "retry",
        "--retry",
        explain="a slot whose command fails or is killed may be run again, here or elsewhere",
        variable="LOCKNUT_ONCE_RETRY",
    ),
    duration(
        "at_least",
        "--at-least",
        explain="remember the slot for at least DURATION (default: twice its length)",
        variable="LOCKNUT_ONCE_AT_LEAST",
        default=0.0,
    ),
    MAX_HOLD._replace(flags=("--at-most", "--max-hold"), variable="LOCKNUT_ONCE_AT_MOST"),
    *SHELL_AND_TTL,
    *SAFETY,
    *SHOWN,
)

LEAD = (
    switch(
        "restart",
        "--restart",
        explain="stand by again when the command has ended or the lock was lost",
        variable="LOCKNUT_LEAD_RESTART",
    ),
    *SHELL_AND_TTL,
    *SAFETY[:-1],
    *SHOWN,
)

_HOLD_TTL = duration(
    "hold_ttl",
    "--ttl",
    explain="how long the lock stays held from now on, unless it is renewed or released",
    variable="LOCKNUT_HOLD_TTL",
)

ACQUIRE = (_HOLD_TTL, *INTO, SHOWN[0])

RENEW = (_HOLD_TTL,)

CHECK = (
    BREAK[0]._replace(help="tell whether the hold with this fence is still there: 0, or 79 if not"),
)
