"""Who is in a weak set, though other threads add to it and the collector takes from it.

CPython iterates a `WeakSet` and the weak dictionaries in Python code (to 3.14 at least), so `list`
of one lets other threads in between. What the collector takes is put off until the iteration is
over; what a thread adds ends it with "Set changed size during iteration".
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeVar

T = TypeVar("T")


def members(of: Collection[T]) -> list[T]:
    """All of a weak set, or all keys of a weak dictionary, whatever is added meanwhile."""
    while True:
        try:
            return list(of)
        except RecursionError:  # a RuntimeError as well
            raise
        except RuntimeError:  # somebody was added: it takes far less time than until the next
            pass
