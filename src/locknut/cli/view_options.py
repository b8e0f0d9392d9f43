"""The options of the verbs that show locks live: `dash` and `top`."""

from __future__ import annotations

from locknut.cli import option_values
from locknut.cli.option_table import Option, duration, switch

DASH = (
    Option(
        "host",
        ("--host",),
        "listen at this address (default: 127.0.0.1, for this machine alone)",
        str,
        "HOST",
        "LOCKNUT_DASH_HOST",
        "127.0.0.1",
    ),
    Option(
        "port",
        ("--port",),
        "listen at this port; 0 chooses a free one (default: 8437)",
        option_values.port,
        "PORT",
        "LOCKNUT_DASH_PORT",
        8437,
    ),
    switch(
        "allow_break",
        "--allow-break",
        explain="let visitors break locks; they log in before (default: read-only)",
    ),
    Option(
        "passphrase_file",
        ("--token-file",),
        "let in whoever knows the first line of FILE; needed for another --host than this machine",
        str,
        "FILE",
        "LOCKNUT_DASH_TOKEN_FILE",
        "",
    ),
    Option(
        "names",
        ("--allow-host",),
        "names that browsers may call this machine by: locks.example,web-3",
        option_values.names,
        "LIST",
        "LOCKNUT_DASH_ALLOW_HOST",
        (),
    ),
    Option(
        "urls_file",
        ("--urls-file",),
        "show the engines whose URLs are the lines of FILE as well",
        str,
        "FILE",
        "LOCKNUT_DASH_URLS_FILE",
        "",
    ),
    duration(
        "every",
        "--every",
        explain="look at the engines every DURATION, or less often if it costs them (default: 2s)",
        variable="LOCKNUT_DASH_EVERY",
        default=2.0,
    ),
)

TOP = (
    duration(
        "every",
        "--every",
        explain="look at the engine every DURATION, or less often if it costs it (default: 1s)",
        variable="LOCKNUT_TOP_EVERY",
        default=1.0,
    ),
)
