"""The options of the verbs that are about an engine, and not about a lock: ping, doctor, capacity,
conformance, redlock.
"""

from __future__ import annotations

from locknut.cli import option_values
from locknut.cli.option_table import Option, duration, switch

PING = (
    duration(
        "wait",
        *("-w", "--wait", "--timeout"),
        explain="wait for an answer at most DURATION (default: 5s)",
        variable="LOCKNUT_PING_WAIT",
        default=5.0,
    ),
)

DOCTOR = (
    duration(
        "wait",
        *("-w", "--wait", "--timeout"),
        explain="take at most DURATION for all checks (default: 10s)",
        variable="LOCKNUT_DOCTOR_WAIT",
        default=10.0,
    ),
    duration(
        "ttl",
        "--ttl",
        explain="the shortest ttl that your programs use (default: the engine's)",
        variable="LOCKNUT_DOCTOR_TTL",
    ),
    Option(
        "ignore",
        ("--ignore",),
        "codes of findings that are accepted here: redis-persistence,redis-memory",
        option_values.words,
        "LIST",
        "LOCKNUT_DOCTOR_IGNORE",
        (),
    ),
    switch(
        "strict",
        "--strict",
        explain="exit with 1 also for a warning, or for a check that could not be made",
        variable="LOCKNUT_DOCTOR_STRICT",
    ),
)

CAPACITY = (
    Option(
        "locks",
        ("--locks",),
        "how many locks are held at the same time, by all together",
        option_values.count,
        "N",
    ),
    Option(
        "needed_ttl",
        ("--ttl",),
        "their ttl (default: 30s)",
        option_values.duration,
        "DURATION",
        default=30.0,
    ),
    Option(
        "hosts",
        ("--hosts",),
        "how many hosts hold them, each its part (default: 1)",
        option_values.at_least_one,
        "N",
        default=1,
    ),
    Option(
        "processes",
        ("--processes",),
        "how many processes of each host hold them (default: 1)",
        option_values.at_least_one,
        "N",
        default=1,
    ),
    Option(
        "waiters",
        ("--waiters",),
        "how many wait at the same time, each for another name (default: 0)",
        option_values.count,
        "N",
        default=0,
    ),
    Option(
        "rate",
        ("--rate",),
        "how many more are acquired and released in a second (default: 0)",
        option_values.count,
        "N",
        default=0,
    ),
    switch("new_names", "--new-names", explain="each of --rate has a name that is used only once"),
    Option(
        "cores",
        ("--cores",),
        "how many cores the server has (default: 2)",
        option_values.at_least_one,
        "N",
        default=2,
    ),
)

CONFORMANCE = (
    Option(
        "only",
        ("--only",),
        "try only the rules with TEXT in their words, or in those of their group: semaphore",
        str,
        "TEXT",
        default="",
    ),
    Option(
        "colour",
        ("--colour", "--color"),
        "try the rules in one colour only: blocking or asyncio (default: both)",
        option_values.colour,
        "COLOUR",
        default="",
    ),
    duration(
        "wait",
        *("-w", "--wait", "--timeout"),
        explain="stop after DURATION, and name what was not tried (default: 30m)",
        variable="LOCKNUT_CONFORMANCE_WAIT",
        default=1800.0,
    ),
)

REDLOCK = (
    Option(
        "node", ("--node",), "`init` this node alone; `status` prints its address", str, "HOST:PORT"
    ),
    switch(
        "force",
        "--force",
        explain="`init` even if other clients use another max_ttl or list of nodes",
    ),
    switch("yes", "-y", "--yes", explain="do not ask for confirmation before `init`"),
)
