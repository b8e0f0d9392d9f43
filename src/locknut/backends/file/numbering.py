"""The number of the next grant: by the clock, so that a file that is removed takes none along."""

from __future__ import annotations

import time
from typing import Final

from locknut.backends.file.layout import RAW_STEP

_LOOKS: Final = 2000
"""Looks at a clock that stands still, before the number is counted on: more than a step takes."""


def number_after(last: int, now: int) -> int:
    """The clock's step, or the next one: the count never overtakes the clock, so that a new file
    can begin at the clock. By count where the clock was set back (S11).

    In a new file (`last` is 0) it is the next step: another file of this name may have been removed
    within this one.
    """
    raw = now // RAW_STEP
    last = last or raw
    if raw == last:
        for _ in range(_LOOKS):
            raw = time.time_ns() // RAW_STEP
            if raw != last:
                break
    return max(raw, last + 1)


def ahead_of_clock(raw: int) -> bool:
    """Whether a new file would begin below this number."""
    return raw >= time.time_ns() // RAW_STEP
