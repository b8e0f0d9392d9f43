"""From a call of release to the end of the hold: count down, hand over, downgrade, or give back."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from locknut.core import losing, pacing, validation
from locknut.core.callers import nobody
from locknut.core.outcome_events import emit_lost, emit_released
from locknut.core.queueing import may_pass_on
from locknut.core.runtime_port import NEVER
from locknut.core.values import Capability, Mode, State
from locknut.errors import BackendUnavailable, LeaseLost, LocknutError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence
    from typing import Any

    from locknut.core.client import Client
    from locknut.core.holding import Hold, LeaseCore
    from locknut.core.ports import Backend, Runtime
    from locknut.core.queueing import Line, Waiter

T = TypeVar("T")
_IN_ORDER = ": release the read before the write; others wait until the read is released"
UNCONFIRMED = "not confirmed by the engine yet"
_RELEASED = State.RELEASED
"""Looking it up in the enum would cost as much as a call."""


async def release(client: Client, lease: LeaseCore) -> None:
    """Give back one entry of this lease; the last one ends the hold or hands it over."""
    rest = begin_release(client, lease)
    if rest is not None:
        await rest


async def release_quietly(client: Client, lease: LeaseCore) -> None:
    """Release a lease that nobody would renew; closing may have ended it already."""
    with suppress(LocknutError):
        await client.runtime.finish(release(client, lease))


def begin_release(  # noqa: C901, PLR0911, PLR0912, PLR0915  # one path, to be read from top to bottom
    client: Client,
    lease: LeaseCore,
    ends: list[LeaseCore] | None = None,
    keeper_backend: Backend | None = None,
) -> Awaitable[None] | None:
    """All of a release that needs no engine; what is left of it, for the caller to await.

    A caller that ends several at once passes `ends`, to collect those that go back to the engine.
    On the keeper's thread `keeper_backend` is its connection: a loop's can only be used there.
    """
    hold = lease._hold
    if client.in_guard() or client.in_engine():
        _leave_to_keeper(client, lease)
        return None
    if hold.valid_until != NEVER or hold.hold_until != NEVER:
        now = client.runtime.now()
        if now >= hold.valid_until or now >= hold.hold_until:
            losing.expire_if_due(client, hold)
    heir: Waiter | None = None
    with client.guard:
        if lease._ended is not None:
            lease._forget()
            raise lease._no_longer_held()
        if lease._count > 1:
            lease._count -= 1
            return None
        survivor = lease._inner
        if lease._outer is not None:
            lease._leave_outer()
            return None
        caller = lease._caller()
        if caller is not None and caller.get(lease._slot) is lease:
            del caller[lease._slot]  # as a rule
        else:
            lease._forget()
        lease._ended = _RELEASED
        if survivor is not None:
            survivor._outlive(lease)
        elif hold.ending:
            # Collected together with somebody's object whose finalizer releases it, after its own
            # finalizer has abandoned it: the keeper gives it back already (L11).
            return None
        else:
            heir = _decide(client, hold, lease)
    if heir is not None:
        heir.signal.notify()
        emit_released(client, lease)
    elif survivor is not None:
        work = _downgrade(client, hold, lease, keeper_backend)
        return client.runtime.finish(work) if keeper_backend is None else work
    elif ends is not None:
        ends.append(lease)
    else:
        return client.runtime.finish(finish_release(client, hold, lease))
    return None


def _leave_to_keeper(client: Client, lease: LeaseCore) -> None:
    """Called inside ourselves, by a finalizer or a signal handler: nothing can be changed here."""
    if lease._ended is not None:
        raise lease._no_longer_held()
    client.later(partial(_release_behind, client, lease))


async def _release_behind(client: Client, lease: LeaseCore, keeper_backend: Backend) -> None:
    """On the keeper's thread: the same release, with the keeper's own connection."""
    ends: list[LeaseCore] = []
    with suppress(LocknutError):  # its caller is gone; the keeper repeats what fails
        rest = begin_release(client, lease, ends, keeper_backend)
        if rest is not None:
            await rest
    for each in ends:
        client.keeper.undo(each._hold.claim, outcome_unknown=each._hold.outcome_unknown)
        pass_on_turn_of(client, each._hold)
        emit_released(client, each)


async def release_again(client: Client, lease: LeaseCore, count: int) -> None:
    """Finish a release that was interrupted (Ctrl-C) somewhere on its way; `count` as it began.

    Every step can be asked for again: what was done is seen, what was not is done.
    """
    hold = lease._hold
    if lease._ended is None:
        if lease._count == count:
            await release(client, lease)
        return
    if hold.number != lease._number or lease._ended is not State.RELEASED:
        return  # handed over, or lost meanwhile
    with client.guard:
        survivor = hold.lease()
        heir = None
        if survivor in (None, lease) and not hold.ending:
            heir = _decide(client, hold, lease)
    if heir is not None:
        heir.signal.notify()
    elif survivor not in (None, lease):
        await _downgrade(client, hold, lease)
    else:
        client.keeper.undo(hold.claim, outcome_unknown=hold.outcome_unknown)
        pass_on_turn_of(client, hold)


def _decide(client: Client, hold: Hold, lease: LeaseCore) -> Waiter | None:
    """Under the guard: to the next of this process, or back to the engine."""
    line = hold.line
    if line is not None and line.waiters:
        now, owner = client.runtime.now(), lease._caller()
        heir = line.heir(hold, now, client.cohort) if may_pass_on(client, owner) else None
        if heir is not None:
            hold.number += 1
            hold.lease = nobody
            if hold.options.max_hold is not None:
                hold.hold_until = now + hold.options.max_hold
            if owner is not None:
                owner.pass_identity(heir.caller())
            return heir
        if client.steps_back:
            line.pause_until = now + pacing.backoff(1, client.runtime.random())
    elif line is not None:
        # No local waiters: a new caller may ask the engine while we are still releasing.
        registered = client.lines.get(line.key) is line
        hold.line = None  # no call from here on, as in `Line.next`
        if registered:
            del client.lines[line.key]
    client.drop(hold)
    return None


async def finish_release(client: Client, hold: Hold, lease: LeaseCore | None = None) -> None:
    """Give the hold back to the engine, then the turn to the next of this process; and emit the
    event of the lease that was released.
    """
    try:
        if not await client.backend.release(hold.claim, outcome_unknown=hold.outcome_unknown):
            raise await _gone(client, hold, lease)
    except BackendUnavailable:
        # Gone on a repeated release means that the first was applied and its answer lost (L9).
        again = lambda: client.backend.release(hold.claim, outcome_unknown=hold.outcome_unknown)  # noqa: E731
        try:
            await _insist(client, again, undo=hold)
        except BaseException:
            if lease is not None:
                emit_released(client, lease, UNCONFIRMED)
            raise
    except LeaseLost:
        raise
    except BaseException:
        client.keeper.undo(hold.claim, outcome_unknown=True)
        if lease is not None:
            emit_released(client, lease, UNCONFIRMED)
        raise
    finally:
        if hold.line is not None:
            pass_on_turn_of(client, hold)
    if lease is not None and (lease._signals or client.events.wants("released")):
        emit_released(client, lease)


async def finish_releases(client: Client, leases: Sequence[LeaseCore]) -> None:
    """`finish_release` for several, in one round trip."""
    holds = [lease._hold for lease in leases]
    claims = [hold.claim for hold in holds]
    outcome_unknown = any(hold.outcome_unknown for hold in holds)

    async def command() -> list[bool]:
        return await client.backend.release_all(claims, outcome_unknown=outcome_unknown)

    try:
        try:
            found = await command()
        except BackendUnavailable:
            await _insist(client, command)
            found = [True] * len(holds)
    except BaseException:
        for lease in leases:
            client.keeper.undo(lease._hold.claim, outcome_unknown=True)
            emit_released(client, lease, UNCONFIRMED)
        raise
    finally:
        for hold in holds:
            pass_on_turn_of(client, hold)
    gone = [lease for lease, there in zip(leases, found, strict=True) if not there]
    for lease, there in zip(leases, found, strict=True):
        if there:
            emit_released(client, lease)
        elif lease is not gone[0]:
            emit_lost(client, lease, "")  # only one of them is worth a question why
    if gone:
        raise await _gone(client, gone[0]._hold, gone[0])


async def _gone(client: Client, hold: Hold, lease: LeaseCore | None) -> LeaseLost:
    pass_on_turn_of(client, hold)  # local waiters do not wait for what follows
    why = await losing.why_broken(client, hold.claim)
    if lease is not None:
        emit_lost(client, lease, why)
    known = f" ({why})" if why else ""
    message = (
        f"the engine did not have this hold any more{known}: somebody else may have had the lock"
    )
    return LeaseLost(message, key=client.bare(hold.claim.key), backend=client.backend.name)


def pass_on(client: Client, line: Line) -> None:
    with client.guard:
        heir = client.pass_turn(line)
    if heir is not None:
        heir.signal.notify()


def pass_on_turn_of(client: Client, hold: Hold) -> None:
    """The same for the turn that came with this hold: once, however often it is asked for."""
    heir = None
    with client.guard:
        if hold.line is not None:
            heir = client.pass_turn(hold.line)
            hold.line = None  # no call in between: an interrupt cannot part the two
    if heir is not None:
        heir.signal.notify()


async def _insist(
    client: Client,
    command: Callable[[], Coroutine[Any, Any, T]],
    undo: Hold | None = None,
    runtime: Runtime | None = None,
) -> T:
    """Send until answered, for a while; then leave it to the keeper and raise the error."""
    runtime = runtime or client.runtime
    give_up = min(runtime.now() + pacing.RELEASE_PATIENCE, runtime.deadline())
    tries = 0
    while True:
        tries += 1
        again = runtime.now() + pacing.backoff(tries, runtime.random())
        try:
            await runtime.signal().wait(min(again, give_up))
            return await command()
        except BaseException as error:
            if isinstance(error, BackendUnavailable) and runtime.now() < give_up:
                continue
            if undo is not None:
                client.keeper.undo(undo.claim, outcome_unknown=True)
            raise


async def _downgrade(
    client: Client, hold: Hold, lease: LeaseCore, keeper_backend: Backend | None = None
) -> None:
    """Make the hold a shared one: readers come in, and writers of this process may ask.

    Where the engine cannot, this raises Unsupported, and the hold goes on as it is: it ends with
    the read, so nothing stays held without a lease.
    """
    if Capability.DOWNGRADE not in client.backend.capabilities:
        hold.options = hold.options._replace(mode=Mode.SHARED)
        validation.has(client.backend, Capability.DOWNGRADE, _IN_ORDER)
    backend, runtime = client.backend, client.runtime
    if keeper_backend is not None:
        backend, runtime = keeper_backend, client.keeper.runtime
    try:
        try:
            kept = await backend.downgrade(hold.claim)
        except BackendUnavailable:
            again = lambda: backend.downgrade(hold.claim)  # noqa: E731  # as in `finish_release`
            kept = await _insist(client, again, runtime=runtime)
    finally:
        hold.claim = hold.claim._replace(mode=Mode.SHARED)
        pass_on_turn_of(client, hold)
    if not kept:
        losing.lose(client, hold, "taken")
    emit_released(client, lease)
