"""A ring from another thread is not lost, however early it comes: also before there is a loop."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from types import FrameType
from typing import Any

from locknut.runtimes import loop as loop_module
from locknut.runtimes.loop import LoopRuntime, LoopSignal

LONG = 20.0
SOON = 10.0
"""A waiter that sleeps for longer was not woken by the ring."""
LINES = 16
"""At least as many as either side runs through until the other one is done."""


def pausing(line: int, pause: Callable[[], object]) -> Callable[..., Any]:
    """A trace function that calls `pause` once, before so many lines of `runtimes/loop.py`."""
    left = [line]

    def trace(frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code.co_filename != loop_module.__file__:
            return None
        if event == "line":
            left[0] -= 1
            if left[0] == 0:
                pause()
        return trace

    return trace


def woken(waits: Coroutine[Any, Any, bool]) -> bool:
    began = time.monotonic()
    return asyncio.run(waits) and time.monotonic() - began < SOON


async def sleeps(signal: LoopSignal) -> bool:
    return await signal.wait(signal._runtime.now() + LONG)


def ringer_is_paused(line: int) -> bool:
    """The waiter finds its loop and goes to sleep while the ringer is in the middle of its ring."""
    signal = LoopRuntime().signal()
    reached, go_on = threading.Event(), threading.Event()

    def pause() -> None:
        reached.set()
        go_on.wait(LONG)

    def ring() -> None:
        sys.settrace(pausing(line, pause))
        signal.notify()
        sys.settrace(None)
        reached.set()

    async def story() -> bool:
        waiting = asyncio.ensure_future(sleeps(signal))
        await asyncio.sleep(0)  # it waits now
        go_on.set()
        return await waiting

    ringer = threading.Thread(target=ring)
    ringer.start()
    assert reached.wait(LONG)
    try:
        return woken(story())
    finally:
        ringer.join(LONG)


def waiter_is_paused(line: int) -> bool:
    """The ringer comes and goes while the waiter is on its way to sleep."""
    signal = LoopRuntime().signal()
    ringer = threading.Thread(target=signal.notify)

    def ring_once() -> None:
        with suppress(RuntimeError):  # it has begun already
            ringer.start()
        ringer.join(LONG)

    async def story() -> bool:
        usual = sys.gettrace()
        sys.settrace(pausing(line, ring_once))
        try:
            return await sleeps(signal)
        finally:
            sys.settrace(usual)

    asleep = threading.Timer(0.5, ring_once)  # the waiter may sleep before it comes to that line
    asleep.start()
    try:
        return woken(story())
    finally:
        asleep.join(LONG)
        ringer.join(LONG)


def test_a_ring_is_not_lost_while_the_waiter_finds_its_loop() -> None:
    assert [line for line in range(1, LINES) if not ringer_is_paused(line)] == []


def test_a_ring_is_not_lost_on_the_way_to_sleep() -> None:
    assert [line for line in range(1, LINES) if not waiter_is_paused(line)] == []
