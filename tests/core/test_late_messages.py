"""A command that was stuck in a dead connection is applied after everything is over (L3).

What the simulator found, as small as it gets: each run scripts how long each request is on its way.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import pytest

from locknut.core import losing
from locknut.core.lock_request import LockOptions
from locknut.core.values import Claim
from tests.simulation.coroutines import Task
from tests.simulation.customer import Customer
from tests.simulation.memory.node import Node
from tests.simulation.network import CALM, Network
from tests.simulation.variant import REAL
from tests.simulation.world import World

PROMPT = 0.001
STUCK = 20.0
OPTIONS = LockOptions(60.0)


class Scripted(Network):
    """Requests take as long as the script says, and as long as usual once it is over."""

    def __init__(self, world: World, *delays: float) -> None:
        super().__init__(world, CALM)
        self.usual = PROMPT
        self._delays = iter(delays)

    def request(self, deliver: Callable[[], None]) -> None:
        self.world.after(next(self._delays, self.usual), deliver)


class Play:
    """Processes on one engine, one task each."""

    def __init__(self, *delays: float) -> None:
        self.world = World(0)
        self.network = Scripted(self.world, *delays)
        self.node = Node(self.world, self.network)

    def customer(self, name: str) -> Customer:
        return Customer(self.world.process(name), self.node, REAL)

    def run(self, customer: Customer, story: Callable[[], Awaitable[None]], seconds: float) -> None:
        task = self.begin(customer, story)
        self.world.run(self.world.now + seconds)
        ended(task)

    def begin(self, customer: Customer, story: Callable[[], Awaitable[None]]) -> Task:
        async def told() -> None:
            await story()

        task = customer.process.spawn(told(), "worker")
        assert task is not None
        return task

    def nothing_is_left(self) -> bool:
        self.world.run(self.world.now + 2 * STUCK)
        return not list(self.node.store.holds()) and not list(self.node.store.places_in_line())


def ended(task: Task) -> None:
    assert task.done
    assert task.error is None


def test_an_attempt_that_lands_after_the_release_of_its_own_retry() -> None:
    play = Play(STUCK, PROMPT)
    customer = play.customer("p")

    async def story() -> None:
        lease = await customer.acquire("name", OPTIONS, 5.0)
        assert lease is not None
        await customer.release(lease)

    play.run(customer, story, 5.0)
    assert play.nothing_is_left()


def test_an_attempt_that_lands_after_its_hold_was_lost() -> None:
    play = Play(STUCK, PROMPT)
    customer = play.customer("p")

    async def story() -> None:
        lease = await customer.acquire("name", OPTIONS, 5.0)
        assert lease is not None
        losing.lose(customer.client, lease._hold, "taken")

    play.run(customer, story, 5.0)
    assert play.nothing_is_left()


def test_an_attempt_that_lands_after_its_hold_was_detached_attached_and_released() -> None:
    play = Play(STUCK, PROMPT)
    customer = play.customer("p")

    async def story() -> None:
        lease = await customer.acquire("name", OPTIONS, 5.0)
        assert lease is not None
        text = await customer.detach(lease)
        assert text is not None
        moved = await customer.attach("name", OPTIONS, text)
        assert moved is not None
        await customer.release(moved)

    play.run(customer, story, 5.0)
    assert play.nothing_is_left()


def test_an_attach_whose_answer_is_late_is_asked_again() -> None:
    play = Play(PROMPT, PROMPT, STUCK, PROMPT)
    customer = play.customer("p")

    async def story() -> None:
        lease = await customer.acquire("name", OPTIONS, 5.0)
        assert lease is not None
        text = await customer.detach(lease)
        assert text is not None
        moved = await customer.attach("name", OPTIONS, text)
        assert moved is not None
        await customer.release(moved)

    play.run(customer, story, 5.0)
    assert play.nothing_is_left()


def test_an_attach_that_lands_after_it_was_given_up_takes_nothing() -> None:
    play = Play()
    first, second = play.customer("p"), play.customer("q")
    options, texts = LockOptions(600.0), []

    async def give_up() -> None:
        lease = await first.acquire("name", options, 5.0)
        assert lease is not None
        texts.append(await first.detach(lease))
        play.network.usual = STUCK
        assert await first.attach("name", options, texts[0] or "") is None
        play.network.usual = PROMPT

    async def take_over() -> None:
        lease = await second.acquire("name", options, 0.0)
        assert lease is None, "the hold is still detached"
        lease = await second.attach("name", options, texts[0] or "")
        assert lease is not None
        await second.release(lease)

    play.run(first, give_up, 10.0)
    play.world.run(play.world.now + 2 * STUCK)
    play.run(second, take_over, 5.0)
    assert play.nothing_is_left()


def test_a_task_that_ends_without_a_release_leaves_nothing() -> None:
    play = Play()
    customer = play.customer("p")

    async def story() -> None:
        assert await customer.acquire("name", OPTIONS, 5.0) is not None

    play.run(customer, story, 1.0)
    assert play.nothing_is_left()


@pytest.mark.parametrize("patience", [30.0, 2.0], ids=["is granted", "gives up"])
def test_an_attempt_of_one_who_gave_up_lands_when_its_heir_is_done(patience: float) -> None:
    """The heir of a claim inherits the doubt about it: the release leaves a tombstone."""
    play = Play(PROMPT, STUCK)  # what the holder sends, and the first attempt of the claim
    customer, holder = play.customer("p"), play.customer("q")
    seen: list[bool] = []

    async def hold() -> None:
        lease = await holder.acquire("name", OPTIONS, 0.0)
        assert lease is not None
        await holder.sleep(5.0)
        await holder.release(lease)

    async def give_up() -> None:
        assert await customer.acquire("name", OPTIONS, 2.0) is None

    async def inherit() -> None:
        await customer.sleep(1.0)  # so that the other is the first in the line
        lease = await customer.acquire("name", OPTIONS, patience)
        seen.append(lease is not None)
        if lease is not None:
            await customer.release(lease)

    holding = play.begin(holder, hold)
    play.world.run(play.world.now + 0.5)
    giving_up, inheriting = play.begin(customer, give_up), play.begin(customer, inherit)
    play.world.run(play.world.now + 1.9)
    waiting = list(play.node.store.places_in_line())
    play.world.run(play.world.now + 0.2)
    ended(giving_up)
    assert waiting == list(play.node.store.places_in_line()), "the claim was not inherited"
    play.world.run(play.world.now + 8.0)
    ended(holding)
    ended(inheriting)
    assert seen == [patience > 5.0]
    assert play.nothing_is_left()


def test_who_wants_something_else_inherits_no_claim() -> None:
    play = Play()
    customer, holder = play.customer("p"), play.customer("q")

    async def hold() -> None:
        lease = await holder.acquire("name", OPTIONS, 0.0)
        assert lease is not None
        await holder.sleep(5.0)
        await holder.release(lease)

    async def give_up() -> None:
        assert await customer.acquire("name", OPTIONS, 2.0) is None

    async def want_less() -> None:
        await customer.sleep(1.0)
        lease = await customer.acquire("name", LockOptions(30.0), 30.0)
        assert lease is not None
        assert lease._hold.claim.ttl == 30.0
        await customer.release(lease)

    holding = play.begin(holder, hold)
    play.world.run(play.world.now + 0.5)
    giving_up, wanting = play.begin(customer, give_up), play.begin(customer, want_less)
    play.world.run(play.world.now + 10.0)
    for task in (holding, giving_up, wanting):
        ended(task)
    assert play.nothing_is_left()


def test_several_released_together_leave_tombstones_if_one_of_them_is_in_doubt() -> None:
    play = Play()
    customer = play.customer("p")
    told: list[bool] = []
    release_all = customer.client.backend.release_all

    async def noted(claims: Sequence[Claim], *, outcome_unknown: bool) -> object:
        told.append(outcome_unknown)
        return await release_all(claims, outcome_unknown=outcome_unknown)

    customer.client.backend.release_all = noted  # type: ignore[assignment,method-assign]

    async def story() -> None:
        leases = await customer.acquire_all(["a", "b"], OPTIONS, 5.0)
        assert leases is not None
        leases[0]._hold.outcome_unknown = True
        await customer.release_all(leases)

    play.run(customer, story, 5.0)
    assert told == [True]
    assert play.nothing_is_left()


def test_a_release_that_is_given_up_is_carried_out_behind_the_caller() -> None:
    play = Play()
    customer = play.customer("p")

    async def story() -> None:
        lease = await customer.acquire("name", OPTIONS, 5.0)
        assert lease is not None
        play.network.usual = 2 * STUCK  # until nobody waits for the answer any more
        await customer.release(lease)
        play.network.usual = PROMPT
        play.node.restart(keep_data=True, away=2 * STUCK + 1)  # what is on its way is lost

    play.run(customer, story, 30.0)
    play.world.run(play.world.now + STUCK)
    assert play.nothing_is_left()
