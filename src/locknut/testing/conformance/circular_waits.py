"""Who waits for whom, over all locks of a namespace; and of a circle, exactly one gives way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from locknut.core import lookout
from locknut.core.values import Capability, Mode
from locknut.errors import DeadlockDetected
from locknut.testing.conformance.scene import Scene
from locknut.testing.conformance.suite import Part, needs


@contextmanager
def hurry() -> Iterator[None]:
    """Waiters look soon, and often."""
    before = lookout.AFTER, lookout.AGAIN, lookout.EVERY
    lookout.AFTER, lookout.AGAIN, lookout.EVERY = 0.2, 0.1, 0.2
    try:
        yield
    finally:
        lookout.AFTER, lookout.AGAIN, lookout.EVERY = before


class CircularWaits(Part):
    """`waits_for`, and `connect(deadlocks="raise")`."""

    @needs(Capability.WAITERS)
    async def test_a_waiter_and_whom_it_waits_for_are_shown(self, scene: Scene) -> None:
        holder, other = scene.connect(label="holder"), scene.connect(label="waiter")

        async def wait() -> None:
            async with other.lock("x"):
                pass

        async with holder.lock("x") as lease:
            worker = scene.spawn(wait)
            graph = await scene.eventually(lambda: _with_waits(holder, 1))
            (edge,) = graph.edges
            assert (edge.lock, edge.mode, edge.fence) == ("x", Mode.EXCLUSIVE, lease.fence)
            assert (edge.holder.label, edge.waiter.label) == ("holder", "waiter")
            assert edge.holder.id
            assert edge.waiter.id
            assert edge.holder.id != edge.waiter.id
            assert edge.holder.id not in edge.holder.who
            assert edge.holder.id == (await holder.info("x")).holders[0].party
            assert graph.deadlocks == ()
        await worker.result()

    @needs(Capability.WAITERS)
    async def test_of_a_circle_one_gives_way_and_the_others_go_on(self, scene: Scene) -> None:
        names = ["x", "y", "z"]
        clients = [scene.connect(deadlocks="raise") for _ in names]
        gates = [scene.gate() for _ in names]

        async def nest(at: int) -> DeadlockDetected | None:
            after = (at + 1) % len(names)
            async with clients[at].lock(names[at], ttl=scene.safe_ttl):
                gates[at].open()
                for gate in gates:
                    await gate.passed()
                try:
                    async with clients[at].lock(names[after], ttl=scene.safe_ttl):
                        return None
                except DeadlockDetected as error:
                    return error

        with hurry():
            workers = [scene.spawn(lambda at=at: nest(at)) for at in range(len(names))]  # type: ignore[misc]
            ends = [await each.result() for each in workers]
        (gave_way,) = [each for each in ends if each is not None]
        assert {each.lock for each in gave_way.cycle} == set(names)
        assert gave_way.cycle[0].lock == gave_way.key
        assert names.index(gave_way.key) == (ends.index(gave_way) + 1) % len(names)

    @needs(Capability.WAITERS, Capability.PERMITS)
    async def test_a_permit_that_somebody_will_release_is_waited_for(self, scene: Scene) -> None:
        """Of two holders one waits for the waiter: the other one goes on, and so do all."""
        locks, other = scene.connect(deadlocks="raise"), scene.connect(deadlocks="raise")
        entered, waits = scene.gate(), scene.gate()

        async def hold_and_wait() -> None:
            async with locks.semaphore("s", 2, ttl=scene.safe_ttl):
                entered.open()
                await waits.passed()
                async with locks.lock("x", ttl=scene.safe_ttl):
                    pass

        async def wait_for_a_permit() -> None:
            async with other.lock("x", ttl=scene.safe_ttl):
                waits.open()
                async with other.semaphore("s", 2, ttl=scene.safe_ttl):
                    pass

        with hurry():
            free = await scene.connect().semaphore("s", 2, ttl=scene.safe_ttl).acquire()
            workers = [scene.spawn(hold_and_wait)]
            await entered.passed()
            workers.append(scene.spawn(wait_for_a_permit))
            await scene.eventually(lambda: _with_waits(locks, 2))
            await scene.pause(4 * lookout.AFTER)  # several looks of both
            await free.release()
            for each in workers:
                await each.result()


async def _with_waits(locks: Any, count: int) -> Any:
    """The graph, once that many wait."""
    graph = await locks.waits_for()
    return (
        graph if len(graph.waits) == count and all(each.party.id for each in graph.waits) else None
    )
