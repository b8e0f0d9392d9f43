"""What looks on costs nothing while it is off: not one call more for an acquire and a release."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from prometheus_client import CollectorRegistry

import locknut
from locknut import aio, metrics


def calls(work: Callable[[], object]) -> list[str]:
    """The Python functions that this calls, in order."""
    seen: list[str] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            seen.append(frame.f_code.co_qualname)

    work()  # warm: what is made once
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return seen


def test_off_again_is_as_if_it_had_never_been_on() -> None:
    with locknut.connect("memory:") as locks:

        def pair() -> None:
            with locks.lock("x"):
                pass

        before = calls(pair)
        stop = metrics.prometheus(locks, registry=CollectorRegistry())
        during = calls(pair)
        stop()
        assert calls(pair) == before
        assert len(during) > len(before), "this test can fail"
        assert not [each for each in before if "Timed" in each or "Observer" in each]


def test_nothing_that_looks_on_is_asked_while_it_is_off() -> None:
    """Neither metrics nor history, nor who waits for whom, nor what a dashboard uses."""
    folders = ("metrics", "observer", "dashboard", "capacity")
    files = ("recording", "history_entries", "lookout", "wait_circles", "wait_graph", "examining")
    seen: set[str] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            seen.add(frame.f_code.co_filename)

    def of_ours(work: Callable[[], object]) -> set[str]:
        work()  # warm
        seen.clear()
        sys.setprofile(note)
        try:
            work()
        finally:
            sys.setprofile(None)
        ours = Path(locknut.__file__).parent
        places = [each for each in map(Path, seen) if each.is_relative_to(ours)]
        assert places
        return {each.stem for each in places if each.stem in files or each.parent.name in folders}

    def pair(locks: locknut.Locks) -> None:
        with locks.lock("x"):
            pass

    with locknut.connect("memory:") as off, locknut.connect("memory:", history=10) as on:
        assert of_ours(lambda: pair(off)) == set()
        assert "recording" in of_ours(lambda: pair(on)), "this test can fail"


def test_off_again_on_a_loop() -> None:
    async def main() -> None:
        async with aio.connect("memory:") as locks:

            async def count() -> list[str]:
                seen: list[str] = []

                def note(frame: FrameType, event: str, _: Any) -> None:
                    if event == "call":
                        seen.append(frame.f_code.co_qualname)

                async with locks.lock("x"):
                    pass
                sys.setprofile(note)
                try:
                    async with locks.lock("x"):
                        pass
                finally:
                    sys.setprofile(None)
                return seen

            before = await count()
            stop = metrics.prometheus(locks, registry=CollectorRegistry())
            during = await count()
            stop()
            assert await count() == before
            assert len(during) > len(before)

    asyncio.run(main())


def test_nobody_imports_it_by_accident() -> None:
    program = """
import sys
import locknut, locknut.aio
locknut.connect("memory:").lock("x").acquire().release()
print([name for name in sys.modules if name.startswith("locknut.metrics")])
"""
    said = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    assert said == "[]\n"
