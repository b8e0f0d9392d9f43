"""Whoever enters a lock again waits for nobody, and neither do those who share an owner.

Each scene is played with threads and with tasks. Next to each is what would be a deadlock, so that
nobody is let off only because nobody looked.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import locknut
from locknut import DeadlockDetected, aio
from locknut.core import lookout
from tests.cli.harness import SOURCE
from tests.servers.processes import until

PATIENCE = 60.0


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in {"AFTER": 0.05, "AGAIN": 0.03, "EVERY": 0.05, "FRESH": 0.0}.items():
        monkeypatch.setattr(lookout, name, seconds)


# The same thread or task, again. They hold "a" and wait for our "b".


@pytest.mark.memory
def test_a_thread_that_enters_again() -> None:
    url = "memory:again"
    holds, ends = threading.Event(), threading.Event()

    def theirs() -> None:
        with locknut.connect(url, label="they") as they, they.lock("a"):
            holds.set()
            with they.lock("b"):
                ends.set()

    with locknut.connect(url, deadlocks="raise") as we:
        thread = threading.Thread(target=theirs, daemon=True)
        with we.lock("b") as first, we.lock("b"):
            thread.start()
            assert holds.wait(PATIENCE)
            until(lambda: we.info("b").waiters, "they wait for us")
            with we.lock("b") as again:  # though somebody waits for it
                assert again.fence == first.fence
                (edge,) = we.waits_for().edges
                assert (edge.lock, edge.fence) == ("b", first.fence)
                assert not we.waits_for().deadlocks
            with pytest.raises(DeadlockDetected) as caught:  # though what we hold was entered twice
                we.lock("a").acquire()
        assert [each.lock for each in caught.value.cycle] == ["a", "b"]
        assert ends.wait(PATIENCE), "all that was entered is released"
        thread.join(PATIENCE)


@pytest.mark.memory
def test_a_task_that_enters_again() -> None:
    url = "memory:again-in-a-task"

    async def main() -> None:
        holds = asyncio.Event()

        async def theirs() -> None:
            async with aio.connect(url, label="they") as they, they.lock("a"):
                holds.set()
                async with they.lock("b"):
                    pass

        async with aio.connect(url, deadlocks="raise") as we:
            async with we.lock("b") as first, we.lock("b"):
                task = asyncio.create_task(theirs())
                await holds.wait()
                while not (await we.info("b")).waiters:  # noqa: ASYNC110  # as in test_deadlocks
                    await asyncio.sleep(0.002)
                async with we.lock("b") as again:
                    assert again.fence == first.fence
                    (edge,) = (await we.waits_for()).edges
                    assert (edge.lock, edge.fence) == ("b", first.fence)
                    assert not (await we.waits_for()).deadlocks
                with pytest.raises(DeadlockDetected) as caught:
                    await we.lock("a").acquire()
            assert [each.lock for each in caught.value.cycle] == ["a", "b"]
            await task

    asyncio.run(asyncio.wait_for(main(), PATIENCE))


# One owner in two processes. The other process holds "a" for its owner and waits for our "b".

THEIRS = """
import sys, locknut
url, owner = sys.argv[1:]
with locknut.connect(url, label="they") as they, they.lock("a", owner=owner):
    print("holds", flush=True)
    with they.lock("b"):
        print("both", flush=True)
"""


@contextmanager
def another_process(url: str, owner: str) -> Iterator[subprocess.Popen[str]]:
    """It ends by itself, after it had both."""
    command = [sys.executable, "-c", THEIRS, url, owner]
    with subprocess.Popen(
        command, env={"PYTHONPATH": SOURCE}, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "holds\n"
            yield process
            assert process.stdout.readline() == "both\n"
            assert process.wait(PATIENCE) == 0
        finally:
            process.kill()


@pytest.mark.parametrize("owner", ["job-7", "job-8"])
def test_a_thread_that_shares_an_owner_with_another_process(tmp_path: Path, owner: str) -> None:
    url = f"file://{tmp_path}/locks"
    with locknut.connect(url, deadlocks="raise") as we:
        ours = we.lock("b").acquire()
        assert ours is not None
        with another_process(url, "job-7"):
            until(lambda: we.info("b").waiters, "they wait for us")
            if owner == "job-7":
                with we.lock("a", owner=owner):
                    assert len(we.info("a").holders) == 2
                    assert not we.waits_for().deadlocks
            else:
                with pytest.raises(DeadlockDetected):
                    we.lock("a", owner=owner).acquire()
            ours.release()


@pytest.mark.parametrize("owner", ["job-7", "job-8"])
def test_a_task_that_shares_an_owner_with_another_process(tmp_path: Path, owner: str) -> None:
    url = f"file://{tmp_path}/locks"

    async def main() -> None:
        async with aio.connect(url, deadlocks="raise") as we:
            ours = await we.lock("b").acquire()
            assert ours is not None
            with another_process(url, "job-7"):
                while not (await we.info("b")).waiters:  # noqa: ASYNC110  # as above
                    await asyncio.sleep(0.002)
                if owner == "job-7":
                    async with we.lock("a", owner=owner):
                        assert len((await we.info("a")).holders) == 2
                        assert not (await we.waits_for()).deadlocks
                else:
                    with pytest.raises(DeadlockDetected):
                        await we.lock("a", owner=owner).acquire()
                await ours.release()

    asyncio.run(asyncio.wait_for(main(), PATIENCE))
