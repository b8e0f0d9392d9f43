"""When the doctor is asked about an engine that is observed, and what it said the last time.

The doctor takes a lock for a moment and asks much: so only where somebody wants to know. It has a
thread of its own, because a server that is half dead may keep it for long.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from locknut.observer.sightings import Concern, Weight

EVERY: Final = 60.0
"""Seconds between two examinations."""


class Examiner:
    """Of one place."""

    def __init__(self, place: str, ask: Callable[[], Sequence[Concern]]) -> None:
        self._place = place
        self._ask = ask
        self.findings: Sequence[Concern] = ()
        self.wanted = False
        """Set by whoever shows the findings: they are asked for after the next listing."""
        self._due = 0.0
        self._thread: threading.Thread | None = None

    def examine_if_due(self) -> None:
        now, thread = time.monotonic(), self._thread
        if not self.wanted or now < self._due or (thread is not None and thread.is_alive()):
            return
        self.wanted, self._due = False, now + EVERY
        begun = threading.Thread(
            target=self._examine, name=f"locknut-doctor {self._place}", daemon=True
        )
        try:
            begun.start()
        except RuntimeError as refused:  # no thread more: whoever looks at the locks goes on
            self.findings = (_not_made(str(refused)),)
            return
        self._thread = begun

    def _examine(self) -> None:
        try:
            self.findings = self._ask()
        except Exception as error:  # noqa: BLE001  # told on the screen
            self.findings = (_not_made(repr(error)),)

    def join(self, timeout: float) -> None:
        """Wait for an examination that is under way."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout)


def _not_made(why: str) -> Concern:
    return Concern(Weight.NOTE, "doctor", "The checks could not be made", why)
