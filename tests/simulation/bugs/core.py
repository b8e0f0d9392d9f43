"""Clients with a bug: what lock libraries get wrong on the caller's side."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from locknut.core.asking import AcquireState
from locknut.core.client import Client
from locknut.core.holding import Hold, LeaseCore
from locknut.core.lock_request import LockRequest
from locknut.core.queueing import Waiter
from locknut.core.values import Renewal, Renewed
from locknut.errors import BackendUnavailable
from tests.simulation.process import SimRuntime
from tests.simulation.recorded_client import Renews, SimClient

T = TypeVar("T")
Lent = LeaseCore | None


class NoShield(SimRuntime):
    """A cancelled caller cancels its command, which arrives all the same."""

    async def finish(self, work: Coroutine[Any, Any, T], *_: object) -> T:
        return await work


class OneIdPerProcess(SimRuntime):
    """The process is the claim (S7)."""

    def new_id(self) -> str:
        return f"{self._process.name:0>32}"


class KeepsTheTurn(SimClient):
    """A hold that is lost does not pass its turn on to the next in line."""

    def drop(self, hold: Hold) -> None:
        super().drop(hold)
        if self.runtime.now() >= hold.valid_until:
            hold.line = None


def never_looks(_: Callable[..., bool]) -> Callable[..., bool]:
    """The state changes when a timer says so, not when the clock does (S20)."""

    def not_ended(_: Client, hold: Hold) -> bool:
        return not hold.ending

    return not_ended


def silence_is_consent(renewed: Renews) -> Renews:
    """A renewal that was not answered is taken to have been applied."""

    def believed(client: Client, hold: Hold, answer: Renewed, sent: float) -> None:
        renewed(client, hold, Renewal.HELD if answer is Renewal.UNKNOWN else answer, sent)

    return believed


def takes_late_answers(renewed: Renews) -> Renews:
    """A renewal's answer counts even if the lease was released meanwhile (S18)."""

    def counted(client: Client, hold: Hold, answer: Renewed, sent: float) -> None:
        if answer is Renewal.LOST:
            hold.ending = False
        renewed(client, hold, answer, sent)

    return counted


def revives_by_answer(renewed: Renews) -> Renews:
    """An answer that comes after the validity makes the hold valid again ..."""

    def revived(client: Client, hold: Hold, answer: Renewed, sent: float) -> None:
        if answer is Renewal.HELD and not hold.ending:
            hold.valid_until = max(hold.valid_until, client.runtime.now() + 0.001)
        renewed(client, hold, answer, sent)

    return revived


def waits_to_be_revived(expire_if_due: Callable[..., bool]) -> Callable[..., bool]:
    """... and nobody ends it while the answer is on its way."""

    def waits(client: Client, hold: Hold) -> bool:
        return expire_if_due(client, hold) if hold.due != float("inf") else not hold.ending

    return waits


def counted_from_the_reply(lend: Callable[..., Lent]) -> Callable[..., Lent]:
    """The grant is valid from when we heard of it."""

    def counted(client: Client, hold: Hold, *more: Any) -> Lent:  # passed on
        if hold.number == 0:
            hold.confirmed(client.runtime.now())
        return lend(client, hold, *more)

    return counted


def renewed_from_the_reply(renewed: Renews) -> Renews:
    """A renewal counts from its answer."""

    def counted(client: Client, hold: Hold, answer: Renewed, _: float) -> None:
        renewed(client, hold, answer, client.runtime.now())

    return counted


def notifies_nobody(_: Callable[..., None]) -> Callable[..., None]:
    """A loss is noted, and nobody is notified."""

    def silent(_: Client, __: LeaseCore) -> None:
        """The holder has to find out."""

    return silent


def same_fence(decide: Callable[..., Waiter | None]) -> Callable[..., Waiter | None]:
    """Handing over does not bump the fence."""

    def decided(client: Client, hold: Hold, lease: LeaseCore) -> Waiter | None:
        heir = decide(client, hold, lease)
        if heir is not None:
            hold.number -= 1
        return heir

    return decided


def hands_over_anything(may: Callable[..., bool]) -> Callable[..., bool]:
    """No bound on hand-overs, and no look at the time that is left."""

    def whatever(hold: Hold, now: float, cohort: int) -> bool:
        return may(hold, now, cohort) or hold.number < cohort

    return whatever


def releases_and_asks_again(
    ask_again: Callable[..., Awaitable[Any]],
) -> Callable[..., Awaitable[Any]]:
    """What was not answered is given back, and asked for once more under the same id (S7)."""

    async def asked(client: Client, state: AcquireState, *more: Any) -> Any:
        if state.claim is not None:
            with suppress(BackendUnavailable):
                await client.runtime.finish(client.backend.release(state.claim))
        return await ask_again(client, state, *more)

    return asked


def forgets_its_turn(retreat: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    """A caller that gives up in the line does not look whether it was just given the turn."""

    async def retreated(client: Client, request: LockRequest, state: AcquireState) -> None:
        if state.waiter is not None and state.claim is None and state.line is not None:
            with client.guard:
                state.line.leave(state.waiter)
            return
        await retreat(client, request, state)

    return retreated


def leaves_without_doubt(leave: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    """Several at once, given up: as if every sending had been answered (L3)."""

    async def left(
        client: Client, requests: Sequence[LockRequest], states: list[AcquireState]
    ) -> None:
        for state in states:
            state.unanswered = 0
        await leave(client, requests, states)

    return left


def believes_the_second_answer(insist: Callable[..., Awaitable[bool]]) -> Callable[..., Any]:
    """An answer "not found" to a repeated release is taken for a loss (L9)."""

    async def believed(client: Client, command: Any, undo: Hold) -> bool:  # passed on
        found = await insist(client, command, undo)
        if not found:
            from locknut.core.releasing import _gone  # only this bug needs it

            raise await _gone(client, undo, None)
        return found

    return believed


def no_margin(_: float) -> float:
    """Clocks all run at the same speed."""
    return 0.0
