"""Threads that do something together, and are waited for."""

from __future__ import annotations

import gc
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

PATIENCE = 20.0
TTL = 9.0
"""Of what must not run out though the machine stands still for seconds; renewed every third."""


def in_thread(work: Callable[..., Any], *args: Any) -> Any:
    """What it returns, or raises, when another thread does it."""
    return Started(work, *args).result()


def renewed(lease: Any) -> None:
    """Until somebody has: nothing else adds to what remains of it."""
    give_up, before = time.monotonic() + PATIENCE, lease.remaining
    while (left := lease.remaining) <= before:
        assert left > 0, "lost"
        assert time.monotonic() < give_up, "not renewed"
        before = left
        time.sleep(0.01)


def collect() -> None:
    """`gc.collect()`, which does nothing and says nothing while another thread is collecting: we
    come again until a whole collection was ours. Of one that never ends, the threads are shown.
    """
    ours: list[bool] = []
    thread = threading.get_ident()

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "stop" and info["generation"] == 2 and threading.get_ident() == thread:
            ours.append(True)

    give_up = time.monotonic() + PATIENCE
    gc.callbacks.append(note)
    try:
        while not ours:
            gc.collect()
            if not ours:
                assert time.monotonic() < give_up, _stacks()
                time.sleep(0.01)
    finally:
        gc.callbacks.remove(note)


def _stacks() -> str:
    frames = sys._current_frames().values()
    return "\n".join("".join(traceback.format_stack(frame)) for frame in frames)


class Started:
    """Work under way on another thread."""

    def __init__(self, work: Callable[..., Any], *args: Any):
        self._work = work
        self._args = args
        self._value: Any = None
        self._error: BaseException | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self._value = self._work(*self._args)
        except BaseException as error:  # noqa: BLE001  # it is the caller's
            self._error = error

    def result(self) -> Any:
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive(), "still at it"
        if self._error is not None:
            raise self._error
        return self._value
