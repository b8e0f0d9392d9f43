"""A program that is interrupted (Ctrl-C) once at every moment around a lock, one moment at a time.

CPython looks for signals when a function begins, after a call of something that is not Python, and
when a loop goes back. A first pass under `sys.settrace` finds these moments; then the same work
runs once for each of them, with a real signal made pending just before. Each run must leave
nothing: no hold, no claim, nobody in a line.

Run as `python stepping.py URL KIND EVERY`; prints how many moments there were (every EVERY-th is
tried) and each one that left something.
"""

from __future__ import annotations

import ctypes
import dis
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any, Final

import locknut
from tests.api import stepped

PATIENCE: Final = 30.0
NOT_LONG: Final = 0.05
LOOKS: Final = frozenset(
    dis.opmap[name]
    for name in ("CALL", "CALL_KW", "CALL_FUNCTION_EX", "JUMP_BACKWARD")
    if name in dis.opmap
)
"""Instructions after which CPython looks for signals. The others at which it does are those that
begin a Python function, whatever they are called."""

trip: Any = ctypes.pythonapi.PyErr_SetInterrupt
"""Makes SIGINT pending without a line of Python, so that it is noticed where it would be. Called as
a trace function it has three arguments, which it does not look at."""
nothing: Any = ctypes.pythonapi.PyThread_get_thread_ident
"""The same for doing nothing."""
for each in (trip, nothing):
    each.argtypes = [ctypes.py_object] * 3
    each.restype = None

Work = Callable[[locknut.Locks], object]


class Survey:
    """Finds the moments of a run: for each the number of the event at which to take aim, the one
    before it in the same frame.
    """

    def __init__(self) -> None:
        self.aims: list[int] = []
        self._event = 0
        self._aim_of: dict[int, int] = {}
        self._before: int | None = None

    def begin(self, frame: FrameType, event: str, arg: object) -> Any:  # a trace function
        del event, arg
        frame.f_trace_lines = False
        frame.f_trace_opcodes = True
        if self._before is not None and self._before not in self.aims[-1:]:
            self.aims.append(self._before)  # what came before began this function
        self._note(frame)
        return self.step

    def step(self, frame: FrameType, event: str, arg: object) -> Any:  # the same
        del arg
        aim = self._note(frame)
        self._before = aim if event == "opcode" else None
        # Where something that is not Python called this function, it looks when that returns.
        if event == "return" or frame.f_code.co_code[frame.f_lasti] in LOOKS:
            self.aims.append(aim)
        return self.step

    def _note(self, frame: FrameType) -> int:
        self._event += 1
        aim = self._aim_of.get(id(frame), 0)
        self._aim_of[id(frame)] = self._event
        return aim


class Shot:
    """Interrupts a run at one moment, and remembers where that was."""

    def __init__(self, aim: int) -> None:
        self.where = "nowhere"
        self.excused = False
        self._left = aim

    def begin(self, frame: FrameType, event: str, arg: object) -> Any:  # as above
        frame.f_trace_lines = False
        frame.f_trace_opcodes = True
        return self.step(frame, event, arg)

    def step(self, frame: FrameType, event: str, arg: object) -> Any:  # as above
        del event, arg
        self._left -= 1
        if self._left:
            return self.step
        sys.settrace(nothing)  # from here on no Python is run that is not the work's
        outer = frame.f_back
        while outer is not None:
            outer.f_trace = None
            outer = outer.f_back
        return trip

    def hit(self, _: int, frame: FrameType | None) -> None:
        sys.settrace(None)
        self.where = stepped.told(frame)
        self.excused = stepped.excused(frame)
        raise KeyboardInterrupt


def traced(work: Work, locks: locknut.Locks, by: Survey | Shot) -> None:
    trace = by.begin  # kept: Python does not while it calls it
    with suppress(KeyboardInterrupt):  # one that is late comes here
        try:
            sys.settrace(trace)
            work(locks)
        finally:
            sys.settrace(None)
            late()


def late() -> None:
    """Where an interrupt that was not noticed before is noticed."""


def survey(url: str, work: Work, at: int, locks: locknut.Locks) -> list[int]:
    """The moments of the next run, found in the one before; of what is done once only, in that of a
    client of its own.
    """
    found = Survey()
    if work is stepped.first:
        with stepped.settled(f"{url}-survey", work, at) as another:
            traced(work, another, found)
    else:
        traced(work, locks, found)
    return found.aims


def main(url: str, kind: str, every: int) -> None:
    work = (stepped.KINDS | stepped.SCARCE | stepped.USES)[kind]
    sys.unraisablehook = lambda _: None  # Python drops what is raised in a destructor
    at = tried = moments = excused = 0
    begun = time.monotonic()
    while True:
        with stepped.settled(url, work, at) as locks:
            aims = survey(url, work, at, locks)
            moments = len(aims)
            if at >= moments:
                break
            shot = Shot(aims[at])
            signal.signal(signal.SIGINT, shot.hit)
            traced(work, locks, shot)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            left = stepped.left_by(locks, NOT_LONG if shot.excused else PATIENCE)
            if "connections=" in url:
                left = left or stepped.exhausted(locks)
            excused += shot.excused
            if left and not shot.excused:
                print(f"{at}: {left} after {shot.where}")
            stepped.forget_all(locks)
        tried += 1
        at += every
    took = time.monotonic() - begun
    print(f"{tried} of {moments} moments, {excused} excused, {took:.1f} s")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
