"""One process that uses the core as the faces do, and tells the history what it saw."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from locknut.core import (
    acquiring,
    acquiring_all,
    breaking,
    detaching,
    inspecting,
    releasing,
    renewing,
)
from locknut.core.lock_request import LockOptions, LockRequest
from locknut.core.values import Event as CoreEvent
from locknut.core.values import State
from locknut.errors import BackendError, LeaseLost, LocknutError
from tests.simulation.checker.history import AMONG, ATTACHED, BESIDE, Kind
from tests.simulation.coroutines import Cancelled
from tests.simulation.recorded_client import RecordingSink, Visit

if TYPE_CHECKING:
    from tests.simulation.memory.node import Node
    from tests.simulation.process import Process
    from tests.simulation.variant import Variant

STORY = object()
"""Where a task keeps the story that it is in the middle of: texts are the names of its leases."""


class Customer:
    """What one simulated process does with locks."""

    def __init__(self, process: Process, node: Node, variant: Variant) -> None:
        self.process = process
        self.runtime = variant.runtime(process)
        self.client = variant.client(
            backend=variant.backend(process, node),
            runtime=self.runtime,
            keeper_runtime=self.runtime,
            keeper_backend=lambda _runtime: (variant.keeper or variant.backend)(process, node),
            keeper_start=lambda work: process.spawn(work, "keeper"),
            events=RecordingSink(self._heard, process.name),
            lease_type=Visit,
            namespace="sim",
        )
        self.client.process = process
        self._stories = 0

    async def sleep(self, seconds: float) -> None:
        await self.runtime.signal().wait(self.runtime.now() + seconds)

    async def acquire(self, name: str, options: LockOptions, timeout: float) -> Visit | None:
        """As `lock.acquire` of a face: a lease, or None; what interrupts it leaves nothing."""
        story = self._called(name, options)
        acquired: list[Any] = []
        try:
            request = self.client.request(name, options)
            await acquiring.acquire(
                self.client, request, self.runtime.caller(), self.runtime.now() + timeout, acquired
            )
        except Cancelled:
            await self._give_up(acquired, name, story)
            raise
        except LocknutError as error:
            self.process.tell(Kind.FAILED, name, story, note=type(error).__name__)
            return None
        if not acquired:
            self.process.tell(Kind.TIMED_OUT, name, story)
            return None
        return self._acquired(acquired[0], story)

    async def acquire_all(
        self, names: Sequence[str], options: LockOptions, timeout: float
    ) -> list[Visit] | None:
        """As `locks.all(...).acquire` of a face: one story for each name, all with one outcome."""
        stories = [
            self._called(name, options, note=BESIDE if at else AMONG)
            for at, name in enumerate(names)
        ]
        self._tells_of(stories[0])
        acquired: list[Any] = []
        parts = [(self.client, self.client.request(name, options)) for name in names]

        def tell(kind: Kind, note: str = "") -> None:
            for name, story in zip(names, stories, strict=True):
                self.process.tell(kind, name, story, note=note)

        try:
            taken = await acquiring_all.acquire_all(parts, self.runtime.now() + timeout, acquired)
        except Cancelled:
            tell(Kind.CANCELLED)
            await acquiring_all.roll_back(acquired)
            raise
        except LocknutError as error:
            tell(Kind.FAILED, type(error).__name__)
            return None
        if not taken:
            tell(Kind.TIMED_OUT)
            return None
        return [
            self._acquired(lease, story) for lease, story in zip(acquired, stories, strict=True)
        ]

    async def release_all(self, leases: Sequence[Visit]) -> None:
        """As `leases.release` of a face."""
        for lease in leases:
            self.process.tell(Kind.RELEASE_CALLED, lease.name, lease.story)
        parts = [
            (
                self.client,
                LockRequest(
                    each._hold.claim.key, each._hold.options, each._slot, queues_locally=True
                ),
            )
            for each in leases
        ]
        gone = ""
        try:
            acquiring_all.let_go(parts, self.runtime.caller())
            await acquiring_all.release_all(list(leases))
        except LeaseLost as error:
            gone = error.key or ""
        except BackendError:
            return  # as for one
        finally:
            for lease in leases:
                if lease.name == gone or lease._ended is State.LOST:
                    self._lost(lease)
                else:
                    self.process.tell(Kind.RELEASED, lease.name, lease.story)

    async def nest(self, lease: Visit, seconds: float) -> None:
        """Enter once more and leave again: the same lease, no round trip."""
        acquired: list[Any] = []
        request = LockRequest(
            lease._hold.claim.key, lease._hold.options, lease._slot, queues_locally=False
        )
        await acquiring.acquire(
            self.client, request, self.runtime.caller(), self.runtime.now(), acquired
        )
        if acquired != [lease]:
            raise AssertionError("re-entry gave another lease")
        try:
            await self.sleep(seconds)
        finally:
            with suppress(LocknutError):
                await releasing.release(self.client, lease)

    def check(self, lease: Visit) -> bool:
        """Whether the holder still believes."""
        held = lease.held
        if held:
            self.process.tell(Kind.CHECKED, lease.name, lease.story)
        return held

    async def renew(self, lease: Visit) -> None:
        with suppress(LeaseLost, BackendError):
            await renewing.renew(self.client, lease)
            until = self.process.true(lease._hold.ends_at())
            self.process.tell(Kind.RENEWED, lease.name, lease.story, until=until)

    async def release(self, lease: Visit) -> None:
        """As `lease.release` of a face: to its end, whatever interrupts it."""
        name, story = lease.name, lease.story
        self.process.tell(Kind.RELEASE_CALLED, name, story)
        try:
            await releasing.release(self.client, lease)
        except LeaseLost:
            if not lease.told:
                lease.told = True
                self.process.tell(Kind.LOST, name, story, note="found by release")
            return
        except BackendError:
            return  # the keeper goes on trying, or the ttl ends it
        except Cancelled:
            self.process.tell(Kind.RELEASED, name, story)
            raise
        self.process.tell(Kind.RELEASED, name, story)

    async def downgrade(self, mine: list[Visit], options: LockOptions) -> None:
        """Read inside a write, then end the write: from then on the read is what is mine."""
        (write,) = mine
        acquired: list[Any] = []
        request = self.client.request(write.name, options)
        await acquiring.acquire(
            self.client, request, self.runtime.caller(), self.runtime.now(), acquired
        )
        mine[:] = acquired
        read: Visit = acquired[0]
        read.story = write.story
        read.on_lost(self._lost)
        self.process.tell(Kind.DOWNGRADED, write.name, write.story)
        with suppress(BackendError, LeaseLost):
            await releasing.release(self.client, write)

    async def force(self, name: str) -> None:
        """As an operator would: break whatever holds the name."""
        with suppress(LocknutError):
            await breaking.force_release(self.client, name, None, "stuck")

    async def look(self, name: str) -> None:
        """As `locks.info` of a face: whoever looks may settle what is due."""
        with suppress(LocknutError):
            await inspecting.info(self.client, name)

    async def detach(self, lease: Visit, ttl: float | None = None) -> str | None:
        until = None if ttl is None else self.process.true(self.runtime.now() + ttl)
        self.process.tell(Kind.DETACHED, lease.name, lease.story, until=until)
        try:
            return await detaching.detach(self.client, lease, ttl)
        except LocknutError:
            return None

    async def attach(
        self, name: str, options: LockOptions, text: str, of: str = ""
    ) -> Visit | None:
        """As `locks.attach` of a face, with the text that was given out in another story."""
        story = self._called(name, options, ATTACHED, of)
        acquired: list[Any] = []
        try:
            await detaching.attach(self.client, text, acquired)
        except Cancelled:
            await self._give_up(acquired, name, story)
            raise
        except LocknutError as error:
            self.process.tell(Kind.FAILED, name, story, note=type(error).__name__)
            return None
        return self._acquired(acquired[0], story)

    def leftovers(self) -> list[str]:
        """What is still there although nobody uses it."""
        client = self.client
        found = {
            "a line": client.lines,
            "a hold": client.holds,
            "a signal": client.waiting,
            "a claim to undo": client.keeper.undoing,
            "a date in the timetable": client.schedule.timetable.next_due() != float("inf"),
        }
        return [what for what, of in found.items() if of]

    def _called(self, name: str, options: LockOptions, note: str = "", of: str = "") -> str:
        self._stories += 1
        story = f"{self.process.name}.{self._stories}"
        self.process.tell(
            Kind.CALLED,
            name,
            story,
            mode=options.mode,
            permits=options.permits,
            owner=options.owner,
            fair=options.fair,
            by=of,
            note=note,
        )
        self._tells_of(story)
        return story

    def _tells_of(self, story: str) -> None:
        """What this task hears from now on is of this call."""
        current = self.process.world.current
        if current is not None:
            current.caller[STORY] = story

    def _acquired(self, lease: Visit, story: str) -> Visit:
        until = self.process.true(lease._hold.ends_at())
        lease.story = story
        self.process.tell(Kind.ACQUIRED, lease.name, story, fence=lease.fence, until=until)
        lease.on_lost(self._lost)
        return lease

    async def _give_up(self, acquired: list[Any], name: str, story: str) -> None:
        self.process.tell(Kind.CANCELLED, name, story)
        for lease in acquired:
            with suppress(LocknutError):
                await releasing.release(self.client, lease)

    def _lost(self, lease: Visit) -> None:
        if not lease.told:
            lease.told = True
            self.process.tell(Kind.LOST, lease.name, lease.story, note=lease.reason)

    def _heard(self, event: CoreEvent) -> None:
        world = self.process.world
        world.seen[event.kind if event.kind != "lost" else f"lost: {event.reason}"] += 1
        if event.kind == "waiting" and world.current is not None:
            story = world.current.caller.get(STORY)
            if story is not None:  # or else it is told aside, after an event of the keeper's
                self.process.tell(Kind.WAITING, event.name, story)
