"""When a hold counts as lost, and how its lease and its listeners learn of it.

A hold is over when our own clock says so, whatever the engine answers later; an answer that never
came extends nothing. A loss is decided under the guard and announced after it. Callbacks run aside,
so that they never delay the keeper.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from locknut.core import notes, pacing
from locknut.core.values import Broken, State
from locknut.errors import LocknutError

if TYPE_CHECKING:
    from collections.abc import Callable

    from locknut.core.client import Client
    from locknut.core.holding import Hold, LeaseCore
    from locknut.core.values import Claim


def expire_if_due(client: Client, hold: Hold) -> bool:
    """Compare the hold with the clock; end it and return False if its time is over."""
    now = client.runtime.now()
    if now < hold.valid_until and now < hold.hold_until:
        return True
    if not hold.ending and not client.nested():  # there the clock alone says it: the keeper ends it
        lose(client, hold, "max_hold" if now < hold.valid_until else "expired")
    return False


class _Once:
    """A callback that is called once, however often: what was interrupted is told again."""

    __slots__ = ("_callback",)

    def __init__(self, callback: Callable[[Any], object]):
        self._callback: Callable[[Any], object] | None = callback

    def __call__(self, lease: LeaseCore) -> object:
        callback, self._callback = self._callback, None
        return None if callback is None else callback(lease)


def lose(client: Client, hold: Hold, reason: str) -> None:
    """End a hold that nobody released. Irrevocable."""
    ours: list[Hold] = []
    try:
        _end(client, hold, reason, ours)
    except BaseException:  # interrupted (Ctrl-C): every step can be asked for again
        _end(client, hold, reason, ours)
        raise


def _end(client: Client, hold: Hold, reason: str, ours: list[Hold]) -> None:
    """Unless somebody else ends it."""
    heir = None
    with client.guard:
        if hold.ending and not ours:
            return
        ours[:] = [hold]  # no call from here on: an interrupt finds both or none
        hold.ending = True
        client.drop(hold)
        ended = end_leases(hold, State.LOST, reason)
        for lease in ended:
            lease._callbacks = tuple(_Once(callback) for callback in lease._callbacks)
        if hold.line is not None:
            heir = client.pass_turn(hold.line)
            hold.line = None  # no call in between, either
    # Where the engine still has it (a ttl kept by the holder, a late answer), give it back.
    client.keeper.undo(hold.claim, outcome_unknown=hold.outcome_unknown)
    if heir is not None:
        heir.signal.notify()
    for lease in ended:
        notify_lease(client, lease)
    held = client.runtime.now() - hold.since
    kind = "abandoned" if reason == "abandoned" else "lost"
    client.emit(kind, hold, aside=True, held=held, reason=reason)


def lose_abandoned(client: Client, hold: Hold, number: int) -> None:
    """End a hold whose lease, of this number, was collected; unless it went on to another lease."""
    if not hold.ending and hold.number == number:
        lose(client, hold, "abandoned")


def end_leases(hold: Hold, state: State, reason: str = "") -> list[LeaseCore]:
    """Under the guard: the lease on this hold, and the read inside it, are over.

    A lost one stays with its thread or task, so that releasing it says LeaseLost, not NotHeld.
    """
    lease = hold.lease()
    ended: list[LeaseCore] = []
    while lease is not None:
        lease._ended = state
        lease._reason = reason
        ended.append(lease)
        lease = lease._inner
    return ended


def notify_lease(client: Client, lease: LeaseCore) -> None:
    """Wake all callers of `wait_lost`, and run the callbacks of `on_lost`."""
    for signal in lease._signals:
        signal.notify()
    if lease._ended is State.LOST:
        for callback in lease._callbacks:
            client.runtime.aside(partial(callback, lease))


def on_lost(client: Client, lease: LeaseCore, callback: Callable[[Any], object]) -> None:
    with client.guard:
        if lease._ended is None or lease._ended is not State.LOST:
            lease._callbacks = (*lease._callbacks, callback)
            return
    client.runtime.aside(partial(callback, lease))


async def wait_lost(client: Client, lease: LeaseCore, until: float) -> bool:
    """True when the hold is lost; False at `until`, or when it ended in another way."""
    if client.nested():
        client.refuse_nested()
    signal = client.runtime.signal()
    with client.guard:
        lease._signals = (*lease._signals, signal)
    try:
        while lease.held and client.runtime.now() < until:
            await signal.wait(min(until, lease._hold.ends_at()))
    finally:
        with client.guard:
            lease._signals = tuple(each for each in lease._signals if each is not signal)
    return lease._ended is State.LOST


def broken(note: str) -> str:
    """The reason of a loss by force, with the note of the breaker."""
    note = notes.read(note)
    return f"broken: {note}" if note else "broken"


async def why_broken(client: Client, claim: Claim) -> str:
    """Why a hold is gone that its release did not find; empty if that is not known at once."""
    if not client.backend.passes_notes:
        return ""
    with suppress(LocknutError):
        until = client.runtime.now() + pacing.MOMENT
        (answer,) = await client.runtime.finish(client.backend.renew([claim]), until)
        return broken(answer.note) if isinstance(answer, Broken) else ""
    return ""
