"""What is looked at to see whether locks are safe on a memcached: what it removed, what room it
has, how it treats clients, and its clock.

A server without CAS ids, or one that is too old, is refused when we connect: then `usable` says so.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

from locknut.core import findings
from locknut.core.durations import spell
from locknut.core.findings import Check, NotKnown, fail, judged, ok, warn
from locknut.core.values import Finding
from locknut.drivers.memcached.replies import Reply
from locknut.drivers.memcached.server_identity import LISTS, listed

_NEARLY_FULL: Final = 0.75
"""A full server counts some 80 %: the rest is lost to the sizes that it stores items in."""
_CROWDED: Final = 0.8
_IDLE: Final = 60
"""Seconds. Connections of ours are idle for a third of the ttl between two renewals."""
Facts = dict[str, str]


def checks(
    ask_list: Callable[[bytes], Awaitable[Sequence[Reply]]], delay: float, ttl: float
) -> list[Check]:
    """`delay`: how old a server has to be before it gives locks out; `ttl`: the usual one."""

    async def ask() -> list[Finding]:
        sent = time.time()
        stats, settings = [listed(await ask_list(question)) for question in LISTS]
        received = time.time()
        known = stats | {f"-{name}": value for name, value in settings.items()}
        judges: dict[str, Callable[[], Finding]] = {
            "clock": lambda: findings.clock(_number(known, "time"), sent - 1, received),
            "memcached-evictions": partial(_evictions, known),
            "memcached-memory": partial(_memory, known),
            "memcached-restarts": lambda: _restarts(known, delay, ttl),
            "memcached-clients": partial(_clients, known),
            "memcached-idle-timeout": partial(_idle_timeout, known),
        }
        return [judged(code, judge) for code, judge in judges.items()]

    return [Check(_CODES, ask)]


_CODES: Final = (
    "clock",
    "memcached-evictions",
    "memcached-memory",
    "memcached-restarts",
    "memcached-clients",
    "memcached-idle-timeout",
)


def _told(known: Facts, name: str) -> str:
    if name not in known:
        raise NotKnown(f"The server does not tell {name}.")
    return known[name]


def _number(known: Facts, name: str) -> int:
    return int(_told(known, name))


def _evictions(known: Facts) -> Finding:
    code, count = "memcached-evictions", _number(known, "evictions")
    if count:
        found = f"The server was full and has removed {count} items; a held lock may be the next."
        return fail(
            code, found, "Give it more memory (-m), or give the locks a server of their own."
        )
    return ok(code, "The server has removed nothing to make room since it was started.")


def _memory(known: Facts) -> Finding:
    code, most = "memcached-memory", _number(known, "limit_maxbytes")
    used = _number(known, "bytes") / most
    found = f"The server uses {used:.0%} of its memory (-m)."
    advice = "Give it more memory (-m), or give the locks a server of their own."
    if used < _NEARLY_FULL:
        return ok(code, found)
    evicts = known.get("-evictions", "on") == "on"
    does = "removes items" if evicts else "refuses to store, and loses what it was to renew"
    return warn(code, f"{found[:-1]}; when it is full, it {does}.", advice)


def _restarts(known: Facts, delay: float, ttl: float) -> Finding:
    code, age = "memcached-restarts", _number(known, "uptime")
    if age < delay:
        found = (
            f"The server was started {spell(age)} ago, and grants nothing before {spell(delay)}."
        )
        return warn(code, found, "Wait: what it held before, it has forgotten.")
    if delay < ttl:
        found = (
            f"A restart forgets every lock, and {spell(delay)} later another may get one that is "
            f"held for up to {spell(ttl)}."
        )
        return warn(code, found, f"Add restart_delay={ttl:g} to the URL, or your longest ttl.")
    return ok(code, f"After a restart the server grants nothing for {spell(delay)}.")


def _clients(known: Facts) -> Finding:
    code = "memcached-clients"
    own = int(known.get("reserved_fds", 0))  # which it needs for itself count as well
    used, most = _number(known, "curr_connections") + own, _number(known, "max_connections")
    found = f"{used} of {most} connections that the server allows are used (-c)."
    if used >= most * _CROWDED:
        return warn(code, found, "Raise the limit (-c): a client beyond it has to wait.")
    return ok(code, found)


def _idle_timeout(known: Facts) -> Finding:
    code, seconds = "memcached-idle-timeout", _number(known, "-idle_timeout")
    if seconds == 0:
        return ok(code, "The server does not hang up on idle clients.")
    found = f"The server hangs up on clients that are idle for {spell(seconds)} (idle_timeout)."
    if seconds < _IDLE:
        return warn(code, found, f"Set idle_timeout to 0, or to {_IDLE} and more.")
    return ok(code, found)
