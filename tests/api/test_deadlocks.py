"""Deadlocks are found, one member gives way, and nobody does where there is none."""

from __future__ import annotations

import asyncio
import os
import pickle
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from math import inf
from typing import Any

import pytest

import locknut
from locknut import Capability, DeadlockDetected, aio
from locknut.core import lookout, queueing
from locknut.core.asking import AcquireState
from locknut.core.lock_request import LockOptions
from locknut.core.values import LockInfo
from locknut.core.wait_circles import graph_of
from locknut.errors import BackendUnavailable, ConfigurationError, Unsupported
from locknut.runtimes import threads as looking
from locknut.waits import WaitGraph

pytestmark = pytest.mark.memory
LOOKS = 6


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in {"AFTER": 0.05, "AGAIN": 0.03, "EVERY": 0.05, "FRESH": 0.0}.items():
        monkeypatch.setattr(lookout, name, seconds)
    monkeypatch.setattr(queueing, "COHORT_SECONDS", 60.0)  # hand over, however busy the machine is


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(main(), 30))


async def until(check: Callable[[], Coroutine[Any, Any, object]]) -> None:
    while not await check():  # noqa: ASYNC110  # the engine has no event for it
        await asyncio.sleep(0.002)


class Scene:
    """A program that plays tricks (`they`), and one that takes part in breaking deadlocks (`we`).

    We hold "b" and wait for "a".
    """

    def __init__(self, **settings: Any) -> None:
        self.they = aio.connect("memory:scene", label="they", **settings)
        self.we = aio.connect("memory:scene", label="we", deadlocks="raise")
        self.looks = 0
        inspect = self.we._client.backend.inspect_all

        async def counted(prefix: str) -> list[LockInfo]:
            self.looks += 1
            return await inspect(prefix)

        self.we._client.backend.inspect_all = counted  # type: ignore[method-assign]

    @asynccontextmanager
    async def ours(self) -> AsyncIterator[asyncio.Task[None]]:
        """Within: we hold "b". The task ends when we had "a" too."""
        holds, waits = asyncio.Event(), asyncio.Event()

        async def nest() -> None:
            async with self.we.lock("b"):
                holds.set()
                await waits.wait()
                async with self.we.lock("a"):
                    pass

        task = asyncio.create_task(nest(), name="ours")
        await holds.wait()
        task.go = waits.set  # type: ignore[attr-defined]
        try:
            yield task
        finally:
            task.cancel()
            await asyncio.wait([task])
            await self.we.close()
            await self.they.close()

    async def waits(self, who: str, name: str) -> None:
        """Until somebody of that label waits there."""

        async def seen() -> bool:
            return any(each.label == who for each in (await self.we.info(name)).waiters)

        await until(seen)

    async def nobody_gives_way(self, ours: asyncio.Task[None]) -> None:
        """After several looks from now on we wait still."""
        start = self.looks

        async def enough() -> bool:
            return self.looks >= start + LOOKS or ours.done()

        await until(enough)
        assert not ours.done(), ours


# One gives way.


@pytest.mark.parametrize("together", [True, False])
def test_two_threads(together: bool) -> None:
    """Of one Locks, whose threads wait in its own line, or of two."""
    first = locknut.connect("memory:threads", deadlocks="raise")
    second = first if together else locknut.connect("memory:threads", deadlocks="raise")
    meet = threading.Barrier(2)
    ends: list[DeadlockDetected | None] = []

    def nest(locks: locknut.Locks, outer: str, inner: str) -> None:
        with locks.lock(outer):
            meet.wait()
            try:
                with locks.lock(inner):
                    ends.append(None)
            except DeadlockDetected as error:
                ends.append(error)

    threads = [
        threading.Thread(target=nest, args=each, daemon=True)
        for each in ((first, "a", "b"), (second, "b", "a"))
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join(20)
    (error,) = [each for each in ends if each is not None]
    assert len(ends) == 2
    assert str(error).startswith("a deadlock, and this caller has to give way: thread ")
    assert [each.lock for each in error.cycle] in (["a", "b"], ["b", "a"])
    again = pickle.loads(pickle.dumps(error))
    assert again.cycle == error.cycle
    first.close()
    second.close()


def test_through_two_engines() -> None:
    async def main() -> None:
        ours, theirs = [
            [aio.connect(f"memory:{name}", deadlocks="raise") for name in ("one", "two")]
            for _ in range(2)
        ]
        meet = asyncio.Barrier(2)

        async def nest(outer: aio.Lock, inner: aio.Lock) -> str:
            async with outer:
                await meet.wait()
                try:
                    async with inner:
                        return "went on"
                except DeadlockDetected:
                    return "gave way"

        pairs = (ours[0].lock("x"), ours[1].lock("x")), (theirs[1].lock("x"), theirs[0].lock("x"))
        tasks = [asyncio.create_task(nest(*each)) for each in pairs]

        async def seen() -> bool:
            return bool((await aio.waits_for(*ours)).deadlocks)

        await until(seen)
        assert not (await ours[0].waits_for()).deadlocks, "one engine alone does not show it"
        assert sorted(await asyncio.gather(*tasks)) == ["gave way", "went on"]
        for each in (*ours, *theirs):
            await each.close()

    run(main)


def test_who_waits_for_itself_through_another_locks() -> None:
    one, other = (locknut.connect("memory:self", deadlocks="raise") for _ in range(2))
    with one.lock("a"), pytest.raises(DeadlockDetected), other.lock("a"):
        pass
    one.close()
    other.close()


@pytest.mark.parametrize("only_the_writer", [False, True])
def test_a_reader_behind_a_writer(only_the_writer: bool) -> None:  # noqa: PLR0915  # one scene
    """It waits for nobody that holds the lock, and yet forever."""

    async def main() -> None:
        raising = aio.connect("memory:readers", deadlocks="raise")
        locks, other = raising, raising
        if only_the_writer:  # two, because nobody else sees the line inside one
            locks, other = aio.connect("memory:readers"), aio.connect("memory:readers")
        first, last, ends = asyncio.Event(), asyncio.Event(), []

        async def nest(name: str, steps: Any) -> None:
            try:
                await steps()
            except DeadlockDetected:
                ends.append(name)

        async def reader() -> None:
            async with locks.rwlock("a").read():
                first.set()
                await last.wait()
                async with locks.lock("b"):
                    pass

        async def writer() -> None:
            await first.wait()
            async with raising.lock("c"), raising.rwlock("a").write():
                pass

        async def late_reader() -> None:
            async with other.lock("b"):
                await first.wait()

                async def queued() -> bool:
                    return bool((await locks.info("a")).waiters)

                await until(queued)
                last.set()
                async with other.rwlock("a").read():
                    pass

        steps = {"reader": reader, "writer": writer, "late reader": late_reader}
        await asyncio.gather(*(nest(*each) for each in steps.items()))
        assert len(ends) == 1
        assert ends == ["writer"] or not only_the_writer
        for each in {locks, other, raising}:
            await each.close()

    run(main)


# Nobody gives way.


def test_a_hold_that_was_handed_over_is_not_its_former_holders() -> None:
    """T1 hands "a" over to T2 and waits for our "b": it does not hold "a" any more."""

    async def main() -> None:
        scene, told, free = Scene(), asyncio.Event(), asyncio.Event()

        async def heir() -> None:
            async with scene.they.lock("a"):
                told.set()
                await free.wait()

        async def former() -> None:
            async with scene.they.lock("a"):
                heirs.append(asyncio.create_task(heir()))
                await asyncio.sleep(0)
            await told.wait()
            async with scene.they.lock("b"):
                pass

        heirs: list[asyncio.Task[None]] = []
        async with scene.ours() as ours:
            task = asyncio.create_task(former())
            await told.wait()
            ours.go()  # type: ignore[attr-defined]
            await scene.waits("they", "b")
            await scene.nobody_gives_way(ours)
            graph = await scene.they.waits_for()
            holder = {each.lock: each.holder.who for each in graph.edges}
            assert holder["a"] == f"task {heirs[0].get_name()}"
            free.set()
            await asyncio.gather(task, ours, *heirs)

    run(main)


def test_the_heir_is_seen() -> None:
    """The one that was handed over to waits for our "b": that is a deadlock."""

    async def main() -> None:
        scene, told = Scene(), asyncio.Event()

        async def heir() -> int:
            async with scene.they.lock("a") as lease:
                told.set()
                async with scene.they.lock("b"):
                    return lease.fence % 32

        async with scene.ours() as ours:
            async with scene.they.lock("a"):
                task = asyncio.create_task(heir())
                await asyncio.sleep(0)
            await told.wait()
            ours.go()  # type: ignore[attr-defined]
            with pytest.raises(DeadlockDetected) as caught:
                await ours
            assert caught.value.cycle[0].lock == "a"
            assert await task == 1, "it was handed over"

    run(main)


def test_a_claim_that_was_left_to_the_next_is_not_its_former_owners() -> None:
    """T1 holds "a", and gave up to wait for our "b", for which T2 of the same process waits on."""

    async def main() -> None:
        scene, gave_up, free = Scene(), asyncio.Event(), asyncio.Event()

        async def first() -> None:
            async with scene.they.lock("a"):
                assert await scene.they.lock("b").acquire(timeout=0.1) is None
                gave_up.set()
                await free.wait()

        async def second() -> None:
            async with scene.they.lock("b"):
                pass

        async with scene.ours() as ours:
            tasks = [asyncio.create_task(first())]
            await scene.waits("they", "b")
            tasks.append(asyncio.create_task(second()))
            await gave_up.wait()
            ours.go()  # type: ignore[attr-defined]
            await scene.waits("they", "b")
            await scene.nobody_gives_way(ours)
            free.set()
            await asyncio.gather(ours, *tasks)

    run(main)


def test_a_detached_hold_is_nobodys() -> None:
    async def main() -> None:
        scene, detached = Scene(), asyncio.Event()
        texts: list[str] = []

        async def worker() -> None:
            lease = await scene.they.lock("a", ttl=60).acquire()
            assert lease is not None
            texts.append(await lease.detach())
            detached.set()
            async with scene.they.lock("b"):
                pass

        async with scene.ours() as ours:
            task = asyncio.create_task(worker())
            await detached.wait()
            ours.go()  # type: ignore[attr-defined]
            await scene.waits("they", "b")
            await scene.nobody_gives_way(ours)
            await (await scene.they.attach(texts[0])).release()
            await asyncio.gather(ours, task)

    run(main)


def test_a_lease_that_another_task_releases_while_its_owner_waits() -> None:
    """It is not handed over: the owner's identity is in use, in the line of "b"."""

    async def main() -> None:
        scene, told, free = Scene(), asyncio.Event(), asyncio.Event()
        leases: list[aio.Lease] = []

        async def owner() -> None:
            lease = await scene.they.lock("a").acquire()
            assert lease is not None
            leases.append(lease)
            async with scene.they.lock("b"):
                pass

        async def heir() -> int:
            async with scene.they.lock("a") as lease:
                told.set()
                await free.wait()
                return lease.fence % 32

        async with scene.ours() as ours:
            tasks = [asyncio.create_task(owner())]
            await scene.waits("they", "b")
            tasks.append(asyncio.create_task(heir()))  # type: ignore[arg-type]
            await asyncio.sleep(0)
            await leases[0].release()
            await told.wait()
            ours.go()  # type: ignore[attr-defined]
            await scene.waits("we", "a")
            await scene.nobody_gives_way(ours)
            free.set()
            assert (await asyncio.gather(ours, *tasks))[2] == 0

    run(main)


def test_a_circle_of_which_nobody_takes_part_is_left_alone() -> None:
    async def main() -> None:
        locks = aio.connect("memory:alone")
        meet = asyncio.Barrier(2)

        async def nest(outer: str, inner: str) -> bool:
            async with locks.lock(outer):
                await meet.wait()
                return await locks.lock(inner).acquire(timeout=0.5) is None

        tasks = [asyncio.create_task(nest(*each)) for each in ("ab", "ba")]

        async def seen() -> bool:
            graph = await locks.waits_for()
            return bool(graph.deadlocks) and graph.deadlocks[0].victim is None

        await until(seen)
        assert True in await asyncio.gather(*tasks), "somebody gave up by its own timeout"
        await locks.close()

    run(main)


# A look that fails.


def test_a_look_that_fails_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        scene, failed, free = Scene(), asyncio.Event(), asyncio.Event()

        async def fails(prefix: str) -> list[LockInfo]:
            failed.set()
            raise BackendUnavailable(f"no answer for {prefix}")

        monkeypatch.setattr(scene.we._client.backend, "inspect_all", fails)

        async def holder() -> None:
            async with scene.they.lock("a"):
                await free.wait()

        async with scene.ours() as ours:
            task = asyncio.create_task(holder())
            await until(lambda: scene.they.lock("a").locked())
            ours.go()  # type: ignore[attr-defined]
            await failed.wait()
            free.set()
            await asyncio.gather(ours, task)

    run(main)


def test_a_caller_that_is_cancelled_while_it_looks_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        scene, looks, answer = Scene(), asyncio.Event(), asyncio.Event()

        async def slow(prefix: str) -> list[LockInfo]:
            looks.set()
            await answer.wait()
            return []

        async with scene.ours() as ours, scene.they.lock("a"):
            monkeypatch.setattr(scene.we._client.backend, "inspect_all", slow)
            ours.go()  # type: ignore[attr-defined]
            await looks.wait()
            ours.cancel()
            await asyncio.wait([ours])
            answer.set()
            found = await scene.they.info("a")
            assert len(found.holders) == 1
            assert found.waiters == ()
            assert not (await scene.they.info("b")).locked

    run(main)


# When a look is taken.


def test_when_a_waiter_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its own clock: after two seconds, then every five or so; in a circle, after one more."""
    monkeypatch.undo()
    with locknut.connect("memory:when", deadlocks="raise") as locks:
        client, now = locks._client, [1000.0]
        monkeypatch.setattr(client.runtime, "now", lambda: now[0])
        caller = client.runtime.caller()
        request = client.request("b", LockOptions())
        watch = lookout.Lookout(client, request, AcquireState(caller, inf, now[0]))
        assert watch.due == 1002.0
        now[0] = 1001.9
        looking.run(watch.look())
        assert watch.due == 1002.0, "not yet"
        now[0] = 1002.0
        looking.run(watch.look())
        assert 1005.75 <= watch.due <= 1008.25
        graph = graph_of({"memory": _circle(caller.party)})
        monkeypatch.setattr(lookout.Lookout, "_graph", lambda _: _done(graph))
        monkeypatch.setattr(lookout.Lookout, "_ours", lambda _, graph: graph.deadlocks[0])
        now[0] = watch.due
        looking.run(watch.look())
        assert watch.due == now[0] + 1.0
        now[0] = watch.due
        with pytest.raises(DeadlockDetected):
            looking.run(watch.look())


async def _done(graph: WaitGraph) -> WaitGraph:
    return graph


def _circle(party: str) -> list[LockInfo]:
    """This party and another one wait for each other."""
    me, other = (locknut.Holder(party=each, breaks=True, raw=1) for each in (party, "other.1"))
    return [LockInfo("a", (me,), (other,)), LockInfo("b", (other,), (me,))]


def test_only_who_holds_something_looks() -> None:
    async def main() -> None:
        scene = Scene()
        async with scene.they.lock("a"):
            tasks = [asyncio.create_task(scene.we.lock("a").acquire(timeout=0.5)) for _ in range(3)]
            await scene.waits("we", "a")
            assert len((await scene.we.info("a")).waiters) == 1, "the others wait behind it"
            assert await asyncio.gather(*tasks) == [None] * 3
        assert scene.looks == 0
        await scene.we.close()
        await scene.they.close()

    run(main)


def test_waiters_share_what_they_see(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookout, "FRESH", 60.0)

    async def main() -> None:
        scene = Scene()

        async def nest(name: str) -> None:
            async with scene.we.lock(name):
                assert await scene.we.lock("a").acquire(timeout=0.4) is None

        async with scene.they.lock("a"):
            await asyncio.gather(*map(nest, "bcdefg"))
        assert scene.looks == 1
        await scene.we.close()
        await scene.they.close()

    run(main)


def test_a_forked_child_is_somebody_else() -> None:
    mine = looking.ThreadRuntime().caller().party
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.write(write, looking.ThreadRuntime().caller().party.encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(write)
    with os.fdopen(read) as answer:
        theirs = answer.read()
    assert theirs
    assert theirs.partition(".")[0] != mine.partition(".")[0]


# Refused.


def test_the_option_has_two_words() -> None:
    with pytest.raises(ConfigurationError, match="deadlocks must be 'ignore' or 'raise'"):
        locknut.connect("memory:", deadlocks="throw")  # type: ignore[arg-type]


def test_an_engine_that_does_not_list_waiters_says_so() -> None:
    """The server is not asked."""
    url = "memcached://127.0.0.1:1"
    with pytest.raises(Unsupported, match="waiters"):
        locknut.connect(url, deadlocks="raise")
    with locknut.connect(url) as locks, pytest.raises(Unsupported, match="waiters"):
        locks.waits_for()
    assert Capability.WAITERS not in locks.capabilities


# What `waits_for` shows.


def test_the_line_inside_a_process_is_shown_there() -> None:
    with locknut.connect("memory:line") as locks, locknut.connect("memory:line") as other:
        done = threading.Event()

        def wait() -> None:
            with locks.lock("a"):
                done.set()

        with locks.lock("a"):
            thread = threading.Thread(target=wait, name="waiting")
            thread.start()
            while not (graph := locks.waits_for()).waits:
                done.wait(0.002)
            (edge,) = graph.edges
            assert edge.waiter.who == "thread waiting"
            assert edge.waiter.pid == edge.holder.pid
            assert not other.waits_for().waits, "nobody else knows of it"
        assert done.wait(20)
        thread.join()


def test_the_default_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCKNUT_URL", "memory:default")
    assert locknut.waits_for() == WaitGraph()


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    for each in locknut._default:
        each.close()
