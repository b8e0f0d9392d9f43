"""`ast.parse` in a process with other threads, safe from a bug of CPython before 3.11.8.

It counts how deep it is in a tree for all threads together. A collection of garbage in the middle
may run a finalizer, and that lets another thread parse; many do, because 3.11 shows a traceback
with it. Then the count is wrong, and whoever parsed first gets a SystemError.
"""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator
from contextlib import contextmanager


def parse(text: str, name: str = "<unknown>") -> ast.Module:
    with no_garbage_collected():
        return ast.parse(text, name)


@contextmanager
def no_garbage_collected() -> Iterator[None]:
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
