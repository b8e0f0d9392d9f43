"""An exception that is raised in a thread at one moment of it, as others do it.

Time limits of threads raise so (`PyThreadState_SetAsyncExc`), and under gevent so does a signal, in
whichever greenlet runs. CPython lets it happen when a function begins, after a call of something
that is not Python, and when a loop goes back: these are the moments here. What a trace function
raises is raised in the code that it traces.
"""

from __future__ import annotations

import dis
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

CALLS: Final = {
    dis.opmap[name] for name in ("CALL", "CALL_KW", "CALL_FUNCTION_EX") if name in dis.opmap
}
LOOPS: Final = {dis.opmap["JUMP_BACKWARD"]}


class Shot:
    """Hits the first thread that comes to this function, at the so many-th moment inside of it."""

    def __init__(self, inside: Callable[..., object], moment: int, error: type[BaseException]):
        self.where = ""
        """Where it hit; empty if it has not."""
        self._inside = inside.__code__
        self._left = moment
        self._error = error
        self._thread: int | None = None
        self._before: tuple[FrameType, int] | None = None
        """The last step: in which frame, and which instruction."""

    def begin(self, frame: FrameType, event: str, arg: object) -> Any:  # a trace function
        del event, arg
        # By its number: Python makes up a thread for whoever asks for one before it is listed.
        thread = threading.get_ident()
        if self._thread is None and frame.f_code is self._inside:
            self._thread = thread
        elif self._thread != thread or self.where:
            return None
        else:
            self._look(frame)
        frame.f_trace_lines = False
        frame.f_trace_opcodes = True
        self._before = None
        return self.step

    def step(self, frame: FrameType, event: str, arg: object) -> Any:  # the same
        del arg
        if frame.f_code is self._inside and event == "return":
            self._left = 0  # too late: it is over
        if self.where:
            return None
        if self._before is not None and event == "opcode":
            last, instruction = self._before
            # Something else in between: it was Python that was called, and had its own moment.
            if last is frame and instruction in CALLS | LOOPS:
                self._look(frame)
        code = frame.f_code.co_code
        self._before = (frame, code[frame.f_lasti]) if event == "opcode" else None
        return self.step

    def _look(self, frame: FrameType) -> None:
        self._left -= 1
        if self._left == 0:
            self.where = f"{frame.f_code.co_qualname}:{frame.f_lineno}"
            self._before = None  # or what the frame has would never be collected
            sys.settrace(None)
            raise self._error


@contextmanager
def aimed(inside: Callable[..., object], moment: int, error: type[BaseException]) -> Iterator[Shot]:
    """The first thread that is started meanwhile and comes to this function is hit, if it gets so
    far.
    """
    shot, before = Shot(inside, moment, error), threading.gettrace()
    threading.settrace(shot.begin)
    try:
        yield shot
    finally:
        threading.settrace(before)
