"""What a Redis says of itself: INFO, its settings and its clock; and what it will not say, and why.

Users with few rights may read INFO and not CONFIG, and some cloud services forbid CONFIG to all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from hiredis import ReplyError

from locknut.drivers.redis import wire

SETTINGS: Final = (
    "appendfsync",
    "client-output-buffer-limit",
    "cluster-require-full-coverage",
    "maxclients",
    "min-replicas-to-write",
    "save",
    "stop-writes-on-bgsave-error",
    "tcp-keepalive",
    "timeout",
)
CLOCK: Final = wire.pack(b"TIME")
_INFO: Final = wire.pack(b"INFO")
QUESTIONS: Final = (
    _INFO,
    *(wire.pack(b"CONFIG", b"GET", name.encode()) for name in SETTINGS),
)
_REPLICA: Final = re.compile(r"slave\d+")


class ServerFacts:
    """The answers of one server; what it does not tell is raised as the caller's own exception."""

    def __init__(self, replies: Sequence[Any], missing: Callable[[str], Exception]):
        info, *settings = replies
        self._missing = missing
        self._info_refused = refusal(info)
        self._info = {} if self._info_refused else _parsed(info)
        self._settings = dict(zip(SETTINGS, settings, strict=True))

    def info(self, name: str) -> str:
        """A line of INFO."""
        if self._info_refused:
            raise self._missing(f"The server does not let us read INFO: {self._info_refused}.")
        if name not in self._info:
            raise self._missing(f"INFO of this server does not say {name!r}.")
        return self._info[name]

    def number(self, name: str) -> int:
        """The same, as a number."""
        return int(self.info(name))

    def says(self, name: str) -> bool:
        """Whether INFO has this line."""
        return name in self._info

    def setting(self, name: str) -> str:
        """What CONFIG GET says."""
        reply = self._settings[name]
        if refused := refusal(reply):
            raise self._missing(f"The server does not let us read its settings: {refused}.")
        if not reply:
            raise self._missing(f"The server has no setting {name!r}.")
        return str(reply[1].decode(errors="replace"))

    def replicas(self) -> list[dict[str, str]]:
        """What a master knows of each of its replicas: ip, port, state, lag."""
        self.info("connected_slaves")
        found = [value for name, value in self._info.items() if _REPLICA.fullmatch(name)]
        return [dict(part.split("=", 1) for part in each.split(",")) for each in found]


def refusal(reply: Any) -> str:
    """The server's own words, if it refused; on one line, without a command that it repeats."""
    if not isinstance(reply, ReplyError):
        return ""
    return " ".join(str(reply).split()).partition(", with args")[0]


def _parsed(info: bytes) -> dict[str, str]:
    lines = (line.partition(":") for line in info.decode(errors="replace").splitlines())
    return {name: value for name, colon, value in lines if colon}
