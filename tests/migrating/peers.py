"""One lock of another library, behind three verbs, so that a test can be said once for all."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import NamedTuple, Protocol

PATIENCE = 60.0
LONG = 120
"""Seconds that a hold of theirs lasts: longer than any test."""


class Acquirable(Protocol):
    """A lock of ours, or several as one."""

    def acquire(self, blocking: bool = ..., timeout: float = ...) -> object: ...


class Peer(NamedTuple):
    """Their lock, and ours of the same thing."""

    attempt: Callable[[], object]
    """Ask once; whether it was had."""
    wait: Callable[[], object]
    release: Callable[[], object]


def eventually(check: Callable[[], object], what: str) -> None:
    """Look until it is so."""
    give_up = time.monotonic() + PATIENCE
    while not check():
        assert time.monotonic() < give_up, what
        time.sleep(0.01)


@contextmanager
def in_a_thread(work: Callable[[], object]) -> Iterator[Callable[[], object]]:
    """Begin it; what is given ends it, and returns what it returned."""
    with ThreadPoolExecutor(1) as thread:
        begun = thread.submit(work)
        yield lambda: begun.result(PATIENCE)
