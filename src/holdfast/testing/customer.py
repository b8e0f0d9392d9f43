"""One process that uses the core as the faces do, and tells the history what it saw."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from holdfast.core import entering, leaving, looking, moving
from holdfast.core.client import Client, Want
from holdfast.core.holding import Hold, LeaseCore, Terms
from holdfast.core.values import Event as CoreEvent
from holdfast.core.values import Renewal
from holdfast.errors import BackendError, HoldfastError, LeaseLost
from holdfast.testing.engine import SimBackend
from holdfast.testing.history import Kind
from holdfast.testing.process import Process, SimRuntime
from holdfast.testing.stepping import Cancelled

if TYPE_CHECKING:
    from holdfast.testing.node import Node


class Visit(LeaseCore):
    """A lease that knows its story in the history."""

    __slots__ = ("story", "told")

    def __init__(self, *known: Any) -> None:  # noqa: ANN401  # as a LeaseCore is made
        super().__init__(*known)
        self.story = ""
        self.told = False


class SimClient(Client):
    """The core's client; what it learns from renewals goes into the history."""

    process: Process

    def renewed(self, hold: Hold, answer: Renewal, sent: float) -> None:
        before = hold.valid_until
        super().renewed(hold, answer, sent)
        lease = hold.lease()
        if isinstance(lease, Visit) and lease.story and hold.valid_until != before:
            until = self.process.true(hold.ends_at())
            self.process.tell(Kind.RENEWED, lease.name, lease.story, until=until)


class _Ear:
    """Hears who begins to wait in the engine's line, and who is at risk."""

    def __init__(self, tell: Callable[[CoreEvent], None]) -> None:
        self._tell = tell

    def wants(self, kind: str) -> bool:
        return kind == "waiting"

    def tell(self, event: CoreEvent) -> None:
        self._tell(event)


class Customer:
    """What one simulated process does with locks."""

    def __init__(self, process: Process, node: Node, runtime: SimRuntime | None = None) -> None:
        self.process = process
        self.runtime = runtime or SimRuntime(process)
        self.client = SimClient(
            backend=SimBackend(process, node),
            runtime=self.runtime,
            keeper_runtime=self.runtime,
            keeper_backend=lambda: SimBackend(process, node),
            keeper_start=lambda work: process.spawn(work, "keeper"),
            ear=_Ear(self._waits),
            lease_type=Visit,
            namespace="sim",
        )
        self.client.process = process
        self._stories = 0

    async def sleep(self, seconds: float) -> None:
        await self.runtime.signal().wait(self.runtime.now() + seconds)

    async def acquire(self, name: str, terms: Terms, timeout: float) -> Visit | None:
        """As `lock.acquire` of a face: a lease, or None; what interrupts it leaves nothing."""
        story = self._called(name, terms)
        made: list[Any] = []
        try:
            want = self.client.want(name, terms)
            await entering.acquire(self.client, want, self.runtime.now() + timeout, made)
        except Cancelled:
            await self._give_up(made, name, story)
            raise
        except HoldfastError as error:
            self.process.tell(Kind.FAILED, name, story, note=type(error).__name__)
            return None
        if not made:
            self.process.tell(Kind.TIMED_OUT, name, story)
            return None
        return self._acquired(made[0], story)

    async def nest(self, lease: Visit, seconds: float) -> None:
        """Enter once more and leave again: the same lease, no round trip."""
        made: list[Any] = []
        want = Want(lease._hold.claim.key, lease._hold.terms, lease._slot, lined=False)
        await entering.acquire(self.client, want, self.runtime.now(), made)
        if made != [lease]:
            raise AssertionError("re-entry gave another lease")
        try:
            await self.sleep(seconds)
        finally:
            with suppress(HoldfastError):
                await leaving.release(self.client, lease)

    def check(self, lease: Visit) -> bool:
        """Whether the holder still believes."""
        held = lease.held
        if held:
            self.process.tell(Kind.CHECKED, lease.name, lease.story)
        return held

    async def renew(self, lease: Visit) -> None:
        with suppress(LeaseLost, BackendError):
            await looking.renew(self.client, lease)
            until = self.process.true(lease._hold.ends_at())
            self.process.tell(Kind.RENEWED, lease.name, lease.story, until=until)

    async def release(self, lease: Visit) -> None:
        """As `lease.release` of a face: to its end, whatever interrupts it."""
        name, story = lease.name, lease.story
        self.process.tell(Kind.RELEASE_CALLED, name, story)
        try:
            await leaving.release(self.client, lease)
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

    async def downgrade(self, mine: list[Visit], terms: Terms) -> None:
        """Read inside a write, then end the write: from then on the read is what is mine."""
        (write,) = mine
        made: list[Any] = []
        want = self.client.want(write.name, terms)
        await entering.acquire(self.client, want, self.runtime.now(), made)
        mine[:] = made
        read: Visit = made[0]
        read.story = write.story
        read.on_lost(self._lost)
        self.process.tell(Kind.DOWNGRADED, write.name, write.story)
        with suppress(BackendError, LeaseLost):
            await leaving.release(self.client, write)

    async def detach(self, lease: Visit) -> str | None:
        self.process.tell(Kind.DETACHED, lease.name, lease.story)
        try:
            return await moving.detach(self.client, lease, None)
        except HoldfastError:
            return None

    async def attach(self, name: str, terms: Terms, text: str) -> Visit | None:
        story = self._called(name, terms)
        made: list[Any] = []
        try:
            await moving.attach(self.client, text, made)
        except Cancelled:
            await self._give_up(made, name, story)
            raise
        except HoldfastError as error:
            self.process.tell(Kind.FAILED, name, story, note=type(error).__name__)
            return None
        return self._acquired(made[0], story)

    def leftovers(self) -> list[str]:
        """What is still there although nobody uses it."""
        client = self.client
        found = {
            "a line": client.lines,
            "a hold": client.holds,
            "a signal": client.waiting,
            "a claim to undo": client.keeper._undone,
        }
        return [what for what, of in found.items() if of]

    def _called(self, name: str, terms: Terms) -> str:
        self._stories += 1
        story = f"{self.process.name}.{self._stories}"
        self.process.tell(
            Kind.CALLED,
            name,
            story,
            mode=terms.mode,
            permits=terms.permits,
            owner=terms.owner,
            fair=terms.fair,
        )
        current = self.process.world.current
        if current is not None:
            current.mine["story"] = story
        return story

    def _acquired(self, lease: Visit, story: str) -> Visit:
        until = self.process.true(lease._hold.ends_at())
        lease.story = story
        self.process.tell(Kind.ACQUIRED, lease.name, story, fence=lease.fence, until=until)
        lease.on_lost(self._lost)
        return lease

    async def _give_up(self, made: list[Any], name: str, story: str) -> None:
        self.process.tell(Kind.CANCELLED, name, story)
        for lease in made:
            with suppress(HoldfastError):
                await leaving.release(self.client, lease)

    def _lost(self, lease: Visit) -> None:
        if not lease.told:
            lease.told = True
            self.process.tell(Kind.LOST, lease.name, lease.story, note=lease.reason)

    def _waits(self, event: CoreEvent) -> None:
        current = self.process.world.current
        if current is not None and "story" in current.mine:
            self.process.tell(Kind.WAITING, event.name, current.mine["story"])
