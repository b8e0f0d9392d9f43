"""The clock of the contract: never steps, and runs on while the machine is suspended.

`time.monotonic()` stops during suspend on Linux, and a lease goes on running out on the server.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

now: Callable[[], float] = (
    partial(time.clock_gettime, time.CLOCK_BOOTTIME)
    if hasattr(time, "CLOCK_BOOTTIME")
    else time.monotonic
)
