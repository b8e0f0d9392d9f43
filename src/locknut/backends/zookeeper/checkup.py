"""What is looked at to see whether locks are safe on a ZooKeeper: each server's version and state,
and the session that was granted.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable
from typing import Final

from locknut.backends.zookeeper.settings import Settings
from locknut.core.durations import spell
from locknut.core.findings import Check, NotKnown, fail, judged, ok, warn
from locknut.core.values import Finding
from locknut.runtimes.deadlines import time_left

_OLDEST: Final = (3, 5)
_LIMIT: Final = 1.0
"""Seconds for the answer of one server."""
_VERSION: Final = re.compile(r"^Zookeeper version: (\d+)\.(\d+)\.(\d+)", re.MULTILINE)
_MODE: Final = re.compile(r"^Mode: (\S+)", re.MULTILINE)
_NOT_SERVING: Final = "not currently serving requests"


def checks(settings: Settings, granted: Callable[[], float]) -> list[Check]:
    """`granted`: the timeout of our session; 0 if there is none yet."""

    async def servers() -> list[Finding]:
        if settings.tls is not None:
            raise NotKnown("Servers do not answer four-letter words by TLS.")
        said = {host: _said(host) for host in settings.hosts}
        return [
            judged("zookeeper-version", lambda: _version(said)),
            judged("zookeeper-servers", lambda: _servers(said)),
        ]

    async def session() -> list[Finding]:
        return [judged("zookeeper-session", lambda: _session(settings, granted()))]

    codes = ("zookeeper-version", "zookeeper-servers")
    return [Check(codes, servers), Check(("zookeeper-session",), session)]


def _said(host: str) -> str:
    """What a server answers to `srvr`; an error in words begins with a `!`."""
    name, _, port = host.rpartition(":")
    try:
        limit = time_left(_LIMIT)
        with socket.create_connection((name.strip("[]"), int(port)), limit) as asked:
            asked.settimeout(limit)
            asked.sendall(b"srvr")
            answer = b""
            while part := asked.recv(65536):
                answer += part
    except OSError as error:
        return f"!{error.strerror or type(error).__name__}"
    return answer.decode(errors="replace") or "!it hung up without an answer"


def _version(said: dict[str, str]) -> Finding:
    code = "zookeeper-version"
    found = {host: match for host, text in said.items() if (match := _VERSION.search(text))}
    if not found:
        raise NotKnown(f"No server tells its version: {_reason(next(iter(said.values())))}.")
    for host, match in found.items():
        if (int(match[1]), int(match[2])) < _OLDEST:
            what = f"{host} is ZooKeeper {match[1]}.{match[2]}.{match[3]}."
            return fail(code, what, "Use ZooKeeper 3.5 or newer.")
    versions = sorted({".".join(match.groups()) for match in found.values()})
    return ok(code, f"The servers are ZooKeeper {' and '.join(versions)}.")


def _servers(said: dict[str, str]) -> Finding:
    code = "zookeeper-servers"
    modes = {host: match[1] for host, text in said.items() if (match := _MODE.search(text))}
    away = {host: _reason(text) for host, text in said.items() if host not in modes}
    reasons = "; ".join(f"{host}: {why}" for host, why in away.items())
    if not modes:
        found = f"No server of the URL serves: {reasons}."
        return fail(code, found, "Start a majority of the servers.")
    if away:
        found = f"{len(away)} of {len(said)} servers of the URL do not serve: {reasons}."
        return warn(code, found, "Start them, or take them out of the URL.")
    if "standalone" in modes.values():
        found = "The server stands alone: while it is away, nothing is granted, and sessions end."
        return warn(code, found, "Run three servers on three machines.")
    return ok(code, f"All {len(modes)} servers of the URL serve.")


def _reason(text: str) -> str:
    if text.startswith("!"):
        return text[1:]
    return "it misses a majority" if _NOT_SERVING in text else "it does not say how it serves"


def _session(settings: Settings, granted: float) -> Finding:
    code, asked = "zookeeper-session", settings.session_timeout
    if not granted:
        raise NotKnown("There is no session.")
    if abs(granted - asked) < 0.001:
        return ok(code, f"The servers granted the session's timeout of {spell(asked)}.")
    then = "locks are lost in shorter troubles" if granted < asked else "the dead keep locks longer"
    found = (
        f"The session lasts {spell(granted)} without a word, and {spell(asked)} was asked for: "
        f"{then}."
    )
    advice = "Set minSessionTimeout and maxSessionTimeout of the servers, or session_timeout."
    return warn(code, found, advice)
