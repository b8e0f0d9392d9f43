"""Answers as bytes on the wire (RESP)."""

from __future__ import annotations

from typing import Any

from tests.simulation.redis.commands import Status
from tests.simulation.redis.keys import Refused


def encoded(answer: Any) -> bytes:
    match answer:
        case None:
            return b"$-1\r\n"
        case int():
            return b":%d\r\n" % answer
        case bytes():
            return b"$%d\r\n%b\r\n" % (len(answer), answer)
        case Status():
            return b"+%b\r\n" % answer.text.encode()
        case Refused():
            return b"-%b\r\n" % str(answer).replace("\n", " ").encode()
        case list():
            return b"*%d\r\n" % len(answer) + b"".join(map(encoded, answer))
    raise AssertionError(answer)


def pushed(*words: bytes) -> bytes:
    """A message that nobody asked for: RESP3 has a type for it."""
    return b">%d\r\n" % len(words) + b"".join(map(encoded, words))
