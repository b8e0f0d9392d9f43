"""Many tasks of one process at one name, and tasks whose loop is closed while they wait."""

from __future__ import annotations

import asyncio
import gc
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import uvloop

import locknut
import locknut.aio
from locknut.backends.file.backend import FileBackend
from locknut.backends.file.engine import FileEngine
from locknut.core.values import Claim, Mode
from locknut.runtimes.loop import LoopRuntime
from locknut.runtimes.threads import ThreadRuntime
from tests.backends.file.driving import (
    acquire,
    claim,
    engine_in,
    open_descriptors,
    permit,
    program,
    reader,
    release,
    run,
    take,
)


@pytest.mark.parametrize(
    ("kind", "tasks", "descriptors"),
    [("semaphore", 2000, 256), ("fair", 600, 256), ("readers", 600, 1024)],
)
def test_many_tasks_at_one_name_need_few_descriptors(
    directory: Path, kind: str, tasks: int, descriptors: int
) -> None:
    """A holder has one descriptor; those who wait need a handful for all of them."""
    url = f"file://{directory}"
    crowd = program("crowd", url, kind, str(tasks), str(descriptors), stderr=subprocess.PIPE)
    said, failed = crowd.communicate(timeout=120)
    assert crowd.returncode == 0, failed.decode()
    through, in_order, left_open = said.split()
    assert int(through) == tasks
    assert kind != "fair" or in_order == b"True"
    assert int(left_open) < 100


# -- loops that are closed


LOOPS = [asyncio.new_event_loop, uvloop.new_event_loop]


def _waiting_in_a_closed_loop(
    engine: FileEngine, wanted: list[Claim], new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    loop, waits = new_loop(), 0

    def told() -> None:
        nonlocal waits
        waits += 1
        if waits == len(wanted):
            loop.stop()

    tasks = [
        loop.create_task(acquire(engine.asyncio(LoopRuntime()), one, on_wait=told))
        for one in wanted
    ]
    loop.run_forever()
    assert not any(task.done() for task in tasks)
    loop.close()


@pytest.mark.parametrize("new_loop", LOOPS)
@pytest.mark.parametrize("make", [claim, reader, lambda: permit(1), lambda: claim(fair=True)])
def test_a_closed_loop_leaves_no_ghost_in_the_line(
    directory: Path,
    make: Callable[[], Claim],
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    """Also beyond the few that stand in the line, and without a collection of garbage."""
    engine, other = engine_in(directory), engine_in(directory).blocking(ThreadRuntime())
    semaphore = make().mode is Mode.PERMIT
    held, fair = permit(1) if semaphore else claim(), permit(1, fair=True)
    take(other, held)
    before = open_descriptors()
    gc.disable()
    try:
        _waiting_in_a_closed_loop(engine, [make() for _ in range(12)], new_loop)
        (info,) = run(other.inspect("ns:a"))
        assert info.waiters == ()
        assert not engine._recipe.states
        assert not engine._recipe.waiting_room._rooms
    finally:
        gc.enable()
    release(other, held)
    take(other, fair if semaphore else claim(fair=True))
    run(engine.blocking(ThreadRuntime()).close())
    assert not [what for _, what in open_descriptors() - before if what.startswith("socket")]


async def _want(directory: Path) -> None:
    async with locknut.aio.connect(f"file://{directory}") as locks, locks.lock("a"):
        pass


async def _until_it_waits(other: FileBackend) -> None:
    while not run(other.inspect("locknut:a"))[0].waiters:  # noqa: ASYNC110 -- a turn of the loop
        await asyncio.sleep(0)


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_loop_that_is_dropped_leaves_no_ghost_in_the_line(directory: Path) -> None:
    """Never closed: it goes with its tasks, as nothing of ours keeps them."""
    other, held = engine_in(directory).blocking(ThreadRuntime()), claim("locknut:a")
    take(other, held)

    def leave_one_waiting() -> None:
        loop = asyncio.new_event_loop()
        task = loop.create_task(_want(directory))
        loop.run_until_complete(_until_it_waits(other))
        assert not task.done()

    leave_one_waiting()
    gc.collect()
    assert run(other.inspect("locknut:a"))[0].waiters == ()
    release(other, held)
    take(other, claim("locknut:a", fair=True))


@pytest.mark.parametrize("new_loop", LOOPS)
def test_the_next_holder_does_not_wait_for_a_closed_loop(
    directory: Path, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    """Through the public API."""
    other = engine_in(directory).blocking(ThreadRuntime())
    held = claim("locknut:a")
    take(other, held)
    loop = new_loop()
    task = loop.create_task(_want(directory))
    loop.run_until_complete(_until_it_waits(other))
    assert not task.done()
    loop.close()
    assert run(other.inspect("locknut:a"))[0].waiters == ()
    release(other, held)
    take(other, claim("locknut:a", fair=True))


def test_a_holder_whose_ttl_ran_out_gives_the_lock_back(directory: Path) -> None:
    other = engine_in(directory).blocking(ThreadRuntime())
    with locknut.connect(f"file://{directory}") as locks:
        lease = locks.lock("a", ttl=0.2, auto_renew=False).acquire()
        assert lease is not None
        raw = run(acquire(other, claim("locknut:a")))
        assert raw is not None
        assert lease.state == "lost"
        assert raw * 32 > lease.fence
