"""A machine that has no thread left."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

STARTS = "_start_joinable_thread" if sys.version_info >= (3, 13) else "_start_new_thread"
"""By what `threading` starts one."""
SAYS = "can't start new thread"


@contextmanager
def no_threads(asked_by: str = "") -> Iterator[None]:
    """As CPython says it when the system refuses; `asked_by`: only to the thread of this name."""
    start = getattr(threading, STARTS)

    def refuse(*words: object, **more: object) -> object:
        if asked_by in ("", threading.current_thread().name):
            raise RuntimeError(SAYS)
        return start(*words, **more)

    setattr(threading, STARTS, refuse)
    try:
        yield
    finally:
        setattr(threading, STARTS, start)
