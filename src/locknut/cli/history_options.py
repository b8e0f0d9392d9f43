"""The options of `events`, the verb that looks back."""

from __future__ import annotations

from locknut.cli import option_values
from locknut.cli.option_table import Option

EVENTS = (
    Option(
        "since",
        ("--since",),
        "print only what happened in the last DURATION, such as 10m (default: all that is kept)",
        option_values.duration,
        "DURATION",
    ),
    Option(
        "follow",
        ("-f", "--follow"),
        "then print what happens, until interrupted",
        option_values.flag,
        None,
        None,
        default=False,
        constant=True,
    ),
)
