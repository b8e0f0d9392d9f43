"""After each test: garbage is still collected in this process.

CPython collects in one thread at a time. A finalizer that waits for ever is in the middle of a
collection, and so ends them all, without a word: what is dropped from then on keeps its connections
and its locks. Tests that look at what was dropped would fail in its place, far from the cause.
"""

from __future__ import annotations

import faulthandler
import gc
import tempfile
import time
import weakref

import pytest

PATIENCE = 30.0
"""Seconds: a finalizer on a busy machine may take a while, as long as it comes to an end."""


class _Circle:
    def __init__(self) -> None:
        self.itself = self


def collects() -> bool:
    """Whether what only a collection removes is gone after one; False during another thread's."""
    dropped = weakref.ref(_Circle())
    gc.collect(0)
    return dropped() is None


def check() -> None:
    """Fail with what every thread does, if nothing is collected any more."""
    give_up = time.monotonic() + PATIENCE
    while not collects():
        if time.monotonic() > give_up:
            pytest.fail(f"no garbage is collected any more; a finalizer waits:\n{_stacks()}")
        time.sleep(0.05)


def _stacks() -> str:
    with tempfile.TemporaryFile("w+") as told:
        faulthandler.dump_traceback(told, all_threads=True)
        told.seek(0)
        return told.read()
