"""One command to one node, and what is known of the node before it is sent."""

from __future__ import annotations

from typing import Any, NamedTuple

from holdfast.backends.redlock.recipe import Words
from holdfast.core.values import Claim
from holdfast.errors import BackendError


class Question(NamedTuple):
    """What is asked of one node."""

    node: int
    words: Words
    about: int = 0
    """Which of several things it is about."""
    owed: Claim | None = None
    """A claim that this takes back: if it is not answered, the node is told again later."""


def run_of(info: Any) -> bytes:
    """Which run of the server this is: `run_id` changes with every start, and with nothing else."""
    if not isinstance(info, bytes) or b"run_id:" not in info:
        message = "the node does not tell its run_id: Redlock needs INFO, and no proxy in between"
        raise BackendError(message, backend="redlock")
    return info.partition(b"run_id:")[2].split(None, 1)[0]
