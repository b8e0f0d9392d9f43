"""Which task a hold belongs to, if the task that acquired it is not the one that uses it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import CodeType
from typing import TYPE_CHECKING, Any, TypeVar, cast

from locknut.core import acquiring_all
from locknut.core.values import State
from locknut.errors import NotHeld
from locknut.runtimes.loop import LoopRuntime

if TYPE_CHECKING:
    from locknut.aio.lease import Lease, Leases, Scope
    from locknut.core.callers import Caller
    from locknut.core.client import Client
    from locknut.core.holding import LeaseCore
    from locknut.core.lock_request import LockRequest
    from locknut.core.ports import Runtime

L = TypeVar("L", bound="Lease | Leases")
Entered = list[tuple[L, "Scope"]]
"""What was entered with one lock and not left yet. It is kept with the lock: an `async with` in an
asynchronous generator, a fixture or an exit stack may be left in another task."""


def caller_or_none(runtime: Runtime) -> Caller | None:
    """Return the calling task, or None outside of any task of this loop."""
    return runtime.caller_or_none()  # type: ignore[attr-defined,no-any-return]  # a LoopRuntime


def here(client: Client) -> None:
    """Raise on any other loop than the client's, before anything is sent to the engine."""
    client.runtime.caller()


def loop_is_gone(client: Client) -> bool:
    """Return whether the client's loop was closed."""
    return cast("LoopRuntime", client.runtime).gone


def pass_on(client: Client, leases: Sequence[LeaseCore], to: Caller | None, code: CodeType) -> None:
    """A task that was made for nothing but this acquire is about to end: what it got belongs to the
    task that called acquire (`create_task(lock.acquire())`; `wait_for` does that on 3.11).
    """
    runtime = cast("LoopRuntime", client.runtime)
    caller = runtime.caller()
    if getattr(caller.task().get_coro(), "cr_code", None) is not code:
        return  # the task goes on, and has it itself
    alive = to is not None and runtime.alive(to)
    if to is None or not alive or any(_has_another(to, lease._slot) for lease in leases):
        to = runtime.outside  # nobody enters that again, and anybody may release it
    alone = not to.leases()
    with client.guard:
        gathered = [each for each in caller.get(acquiring_all.GATHERED, ()) if each[1] in leases]
        if gathered:
            to.setdefault(acquiring_all.GATHERED, []).extend(gathered)
        for lease in leases:
            lease._belong(to, alone=to is not runtime.outside)
        if alone and not caller.leases():
            to.inherit(caller.party)  # others know the hold by the identity of the task that ends


def _has_another(caller: Caller, slot: object) -> bool:
    kept = caller.get(slot)
    return kept is not None and not isinstance(kept, list) and kept._ended is None


def left_behind(
    client: Client, request: LockRequest, kept: Iterable[LeaseCore]
) -> LeaseCore | None:
    """A hold whose task has ended may be released by any task, as an asyncio.Lock's (L10)."""
    runtime = cast("LoopRuntime", client.runtime)
    holds = list(client.holds.values())
    found = [*kept, *runtime.outside.get(request.slot, ()), *(hold.lease() for hold in holds)]
    ours = [
        lease
        for lease in found
        if lease is not None
        and lease._slot == request.slot
        and lease.mode is request.options.mode
        and lease._ended in (None, State.LOST)
        and not runtime.alive(lease._caller())
    ]
    held = [lease for lease in ours if lease._ended is None]
    return next(iter(held or ours), None)


def pop_entered(entered: Entered[L], runtime: Runtime, caller: Caller | None) -> tuple[L, Scope]:
    """What this task entered last and has not left yet; or else what another one entered: one that
    has ended, if there is one, because another task has to leave for it.
    """
    if not entered:
        raise NotHeld("left an 'async with' that was not entered")
    if caller is not None and entered[-1][0]._caller() is caller:
        return entered.pop()  # as a rule
    owners = [what._caller() for what, _ in entered]
    own = [at for at, owner in enumerate(owners) if owner is not None and owner is caller]
    ended = [at for at, owner in enumerate(owners) if not runtime.alive(owner)]
    return entered.pop((own or ended or [-1])[-1])


def abandon(leases: Iterable[Any]) -> None:
    """Give up leases where nothing can be sent: the loop is closed, or another one is running."""
    for lease in leases:
        lease._client.abandon(lease._hold, lease._number)
