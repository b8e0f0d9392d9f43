"""Which numbers a descriptor may have: never those of stdin, stdout and stderr.

A daemon may have these three closed, and the kernel gives the lowest free number. A file that is
opened then becomes stdout, and the next stray `print` is written into it.
"""

from __future__ import annotations

import os

_FIRST = 3


def away_from_standard(descriptor: int) -> int:
    """The same open file under a number that nobody prints to; the old number is closed."""
    if descriptor >= _FIRST:
        return descriptor
    low = [descriptor]
    try:
        # Each copy gets the lowest number that is free, so at most three are too low.
        while (copy := os.dup(descriptor)) < _FIRST:
            low.append(copy)
        return copy
    finally:
        for each in low:
            os.close(each)
