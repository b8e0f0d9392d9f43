"""One command to one node, and what is known of the node before it is sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from locknut.backends.redlock.scripts import ALL
from locknut.core.values import Claim
from locknut.drivers.redis import wire
from locknut.drivers.redis.lua_scripts import Script
from locknut.errors import BackendError, BackendUnavailable


class Route:
    """Another one is made each time, so `is` tells whether two things went the same way."""

    __slots__ = ("node", "run")

    def __init__(self, node: int, run: bytes):
        self.node = node
        self.run = run
        """Which run of the server is at its end."""


Packed = tuple[Script, bytes]
Words = Callable[[Route], Packed]
"""What to send to a node, given the connection by which it goes in this moment; empty if there is
nothing to be said any more."""
UNSAID: Final = (Script(b"", b""), b"")


class Question(NamedTuple):
    """What is asked of one node."""

    node: int
    words: Words
    about: int = 0
    """Which of several things it is about."""
    owed: Claim | None = None
    """A claim that this takes back: if it is not answered, the node is told again later."""


class NotSent(BackendUnavailable):
    """Nothing went out to this node, so there is nothing to take back."""


Hear = Callable[[Question, Any, float], object]
"""Is told the answer, or the error that stands for it, and when the question was sent."""


def nobody_waits(_question: Question, _answer: Any, _sent: float) -> None:
    """Nobody waits for this answer."""


def hello() -> list[bytes]:
    """What every connection asks first: which run this is, and that it learns the scripts. One that
    is not known when it is needed would be done later than what was sent after it.
    """
    return [*map(script_load, ALL), wire.pack(b"INFO", b"server")]


def script_load(script: Script) -> bytes:
    return wire.pack(b"SCRIPT", b"LOAD", script.text)


def in_full(script: Script, packed: bytes) -> bytes:
    """The same command with the script itself, for when nobody may be there to send it again."""
    short = b"$7\r\nEVALSHA\r\n$40\r\n" + script.sha
    return packed.replace(short, b"$4\r\nEVAL\r\n$%d\r\n%b" % (len(script.text), script.text), 1)


def kind_of(info: bytes) -> bytes:
    """What the server is: standalone, or part of something that may be in two places at once."""
    return info.partition(b"redis_mode:")[2].partition(b"\r\n")[0]


def run_of(info: Any) -> bytes:
    """Which run of the server this is: `run_id` changes with every start, and with nothing else."""
    if not isinstance(info, bytes) or b"run_id:" not in info:
        message = "the node does not tell its run_id: Redlock needs INFO, and no proxy in between"
        raise BackendError(message, backend="redlock")
    return info.partition(b"run_id:")[2].split(None, 1)[0]
