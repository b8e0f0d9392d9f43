"""A thread that waits while it runs an event loop: the whole loop stands still with it."""

from __future__ import annotations

import sys
from typing import Any

from locknut.errors import BlockingInLoopWarning

_MESSAGE = (
    "a blocking lock waits in a thread that runs an asyncio event loop: all tasks of the loop "
    "stand still meanwhile; use locknut.aio in asyncio code"
)
"""It names no lock: Python remembers each text that it has shown, and names can be many."""


def runs_a_loop() -> bool:
    """Whether the calling thread runs an event loop just now."""
    events: Any = sys.modules.get("asyncio.events")  # not imported for this: then no loop runs
    return events is not None and events._get_running_loop() is not None


def warn() -> None:
    """Tell of the line outside of Locknut that made this thread wait."""
    import warnings  # asyncio has imported it, and nobody else needs it

    warnings.warn(_MESSAGE, BlockingInLoopWarning, stacklevel=_frames_of_ours() + 1)


def _frames_of_ours() -> int:
    """How many frames there are from `warn` to the last one of this package, both included."""
    package, count = __name__.partition(".")[0], 0
    frame = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == package:
        frame, count = frame.f_back, count + 1  # type: ignore[assignment]
    return count
