"""One command to one node: its content, the connection it goes by, and who hears the answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from locknut.backends.redlock.scripts import ALL
from locknut.core.values import Claim
from locknut.drivers.redis import wire
from locknut.drivers.redis.lua_scripts import Script
from locknut.errors import BackendError, BackendUnavailable


class Route:
    """One connection to a node, until it breaks: what goes by it arrives in order.

    Every connection has a new one, so `is` tells whether two commands went by the same connection.
    """

    __slots__ = ("node", "run")

    def __init__(self, node: int, run: bytes):
        self.node = node
        self.run = run
        """Which run of the server is at the other end."""


Packed = tuple[Script, bytes]
Words = Callable[[Route], Packed]
"""Makes the command for the connection by which it is about to go; `UNSAID` if the command is no
longer needed."""
UNSAID: Final = (Script(b"", b""), b"")


class Question(NamedTuple):
    """A command to one node, to be made when it is sent."""

    node: int
    words: Words
    about: int = 0
    """Which claim of a batch it is about."""
    owed: Claim | None = None
    """The claim that this takes back: if the node does not answer, it is asked again later."""


class NotSent(BackendUnavailable):
    """Nothing went out to this node, so there is nothing to take back."""


Hear = Callable[[Question, Any, float], object]
"""Called with the answer, or with the error in its place, and with the time of sending."""


def nobody_waits(_question: Question, _answer: Any, _sent: float) -> None:
    """Nobody waits for this answer."""


def hello() -> list[bytes]:
    """What every connection sends first: it loads the scripts and asks which run of the server this
    is. A script that was missing when it is needed would run later than commands sent after it.
    """
    return [*map(script_load, ALL), wire.pack(b"INFO", b"server")]


def script_load(script: Script) -> bytes:
    return wire.pack(b"SCRIPT", b"LOAD", script.text)


def in_full(script: Script, packed: bytes) -> bytes:
    """The same command with the text of its script, for when it cannot be sent a second time."""
    short = b"$7\r\nEVALSHA\r\n$40\r\n" + script.sha
    return packed.replace(short, b"$4\r\nEVAL\r\n$%d\r\n%b" % (len(script.text), script.text), 1)


def kind_of(info: bytes) -> bytes:
    """Whether the server is standalone, or part of a cluster or group that could vote twice."""
    return info.partition(b"redis_mode:")[2].partition(b"\r\n")[0]


def run_of(info: Any) -> bytes:
    """Which run of the server this is: `run_id` changes with every start and at no other time."""
    if not isinstance(info, bytes) or b"run_id:" not in info:
        message = "the node does not tell its run_id: Redlock needs INFO, and no proxy in between"
        raise BackendError(message, backend="redlock")
    return info.partition(b"run_id:")[2].split(None, 1)[0]
