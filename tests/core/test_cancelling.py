"""A task is cancelled at each of its suspensions, one run for each: nothing may stay behind.

ttls are long, so that nothing goes away by itself while the test looks.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from locknut.core.lock_request import LockOptions
from locknut.core.values import Mode
from tests.simulation.bugs import BUGS
from tests.simulation.checker import Assumptions, Violation, check
from tests.simulation.checker.history import Kind
from tests.simulation.coroutines import Cancelled, Task
from tests.simulation.customer import Customer
from tests.simulation.memory.node import Node
from tests.simulation.network import CALM, Faults, Network
from tests.simulation.variant import REAL, Variant
from tests.simulation.world import World

TTL = 60.0
LOSSY = Faults(request_lost=0.2, reply_lost=0.2, slow=0.3)
JUDGED = Assumptions(free_within=5.0, idle_within=8.0)

Visit = Callable[[Customer], Awaitable[None]]


async def lock(customer: Customer, options: LockOptions, hold: float = 0.02) -> None:
    """Acquire, check, enter again, renew, leave."""
    lease = await customer.acquire("name", options, 30.0)
    if lease is None:
        return
    try:
        await customer.sleep(hold)
        if customer.check(lease):
            if options.mode is not Mode.PERMIT:
                await customer.nest(lease, 0.001)
            await customer.renew(lease)
    finally:
        await customer.release(lease)


async def downgrade(customer: Customer) -> None:
    lease = await customer.acquire("name", LockOptions(TTL, hand_over=False), 30.0)
    if lease is None:
        return
    mine = [lease]
    try:
        await customer.sleep(0.01)
        await customer.downgrade(mine, LockOptions(TTL, mode=Mode.SHARED, hand_over=False))
        await customer.sleep(0.01)
    finally:
        await customer.release(mine[0])


async def move(customer: Customer) -> None:
    """Detach the hold, and attach it again."""
    options = LockOptions(TTL)
    lease = await customer.acquire("name", options, 30.0)
    if lease is None:
        return
    text = await customer.detach(lease)
    if text is None:
        return
    try:
        moved = await customer.attach("name", options, text)
    except Cancelled:
        await bring_home(customer, options, text)
        raise
    if moved is None:
        await bring_home(customer, options, text)
    else:
        await customer.release(moved)


async def bring_home(customer: Customer, options: LockOptions, text: str) -> None:
    """After an attach that failed the hold is as it was, or will be, and the text still works."""
    for _ in range(10):
        while customer.client.keeper.undoing:
            await customer.sleep(0.1)
        moved = await customer.attach("name", options, text)
        if moved is not None:
            await customer.release(moved)
            return


async def both(customer: Customer) -> None:
    """Two at once, and one of them alone, in the way of the others."""
    leases = await customer.acquire_all(("name", "other"), LockOptions(TTL), 30.0)
    if leases is None:
        return
    try:
        await customer.sleep(0.01)
        for lease in leases:
            customer.check(lease)
    finally:
        await customer.release_all(leases)
    await lock(customer, LockOptions(TTL), hold=0.005)


VISITS: dict[str, Visit] = {
    "mutex": partial(lock, options=LockOptions(TTL)),
    "quick": partial(lock, options=LockOptions(TTL), hold=0.0),
    "plain": partial(lock, options=LockOptions(TTL, auto_renew=False)),
    "fair": partial(lock, options=LockOptions(TTL, fair=True)),
    "permit": partial(lock, options=LockOptions(TTL, mode=Mode.PERMIT, permits=2)),
    "reader": partial(lock, options=LockOptions(TTL, mode=Mode.SHARED, hand_over=False)),
    "owner": partial(lock, options=LockOptions(TTL, owner="ann")),
    "downgrade": downgrade,
    "move": move,
    "both": both,
}


class Stage:
    """Two processes with three tasks each, all of them at the same name at once."""

    def __init__(self, visit: Visit, faults: Faults, variant: Variant = REAL) -> None:
        self.world = World(7)
        self.network = Network(self.world, faults)
        self.node = Node(self.world, self.network, variant.store)
        self.customers = [
            Customer(self.world.process(f"p{i}"), self.node, variant) for i in range(2)
        ]
        self.tasks = [self._enter(self.customers[i % 2], visit, i) for i in range(6)]

    def _enter(self, customer: Customer, visit: Visit, i: int) -> Task:
        async def twice() -> None:
            await customer.sleep(i * 0.001)
            await visit(customer)
            await visit(customer)

        task = customer.process.spawn(twice(), f"worker{i}")
        assert task is not None
        return task

    def run(self) -> list[Violation]:
        for _ in range(300):
            self.world.run(self.world.now + 0.1)
            if all(task.done for task in self.tasks):
                break
        self.world.run(self.world.now + 10.0)
        self._look_around()
        self.world.tell("", Kind.ENDED)
        for customer in self.customers:
            customer.process.end()
        return check(self.world.history, JUDGED)

    def _look_around(self) -> None:
        left = [f"{held.claim.who} holds" for held in self.node.store.holds()]
        left += [f"{claim_id} in line" for _, claim_id in self.node.store.places_in_line()]
        for customer in self.customers:
            left += customer.leftovers()
        left += [f"{task.name}: {task.error!r}" for task in self.tasks if task.error]
        for what in left:
            self.world.tell("", Kind.LEFT, note=what)


def cancelled_at(suspension: int, *, when_woken: bool) -> Callable[[Task], None]:
    def strike(task: Task) -> None:
        if task.suspensions == suspension:
            (task.cancel_when_woken if when_woken else task.cancel)()

    return strike


def every_cancellation(
    visit: Visit, faults: Faults, *, when_woken: bool, victim: int, variant: Variant = REAL
) -> dict[int, list[Violation]]:
    """What went wrong, by the suspension at which the victim was cancelled."""
    found: dict[int, list[Violation]] = {}
    for suspension in range(1, 400):
        stage = Stage(visit, faults, variant)
        task = stage.tasks[victim]
        task.on_suspend = cancelled_at(suspension, when_woken=when_woken)
        violations = stage.run()
        if violations:
            found[suspension] = violations
        if task.suspensions < suspension:
            assert suspension > 5
            return found
    raise AssertionError("the victim never came to its end")


@pytest.mark.parametrize("when_woken", [False, True], ids=["waiting", "woken"])
@pytest.mark.parametrize("faults", [CALM, LOSSY], ids=["calm", "lossy"])
@pytest.mark.parametrize("visit", VISITS.values(), ids=VISITS)
def test_cancelled_at_every_await(visit: Visit, faults: Faults, when_woken: bool) -> None:
    for victim in (0, 2):
        found = every_cancellation(visit, faults, when_woken=when_woken, victim=victim)
        told = [f"at {at}: {violation}" for at, all_ in found.items() for violation in all_]
        assert not told, "\n".join(told[:3])


@pytest.mark.parametrize(
    ("bug", "visit", "when_woken"),
    [("turn-not-passed-on", "mutex", True), ("no-shield", "permit", False)],
)
def test_it_can_fail(bug: str, visit: str, when_woken: bool) -> None:
    variant = BUGS[bug].variant
    with variant.in_force():
        assert every_cancellation(
            VISITS[visit], CALM, when_woken=when_woken, victim=4, variant=variant
        )
