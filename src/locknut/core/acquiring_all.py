"""Several locks at once: all or nothing, in one global order, so that two callers never deadlock.

What is free is taken in one command where the engine can; else each is waited for in its turn.
The order is by name, then by the Locks' id. It helps only if a caller that already has one of them
does not ask for more, so such a call is refused (L15).
"""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from locknut.core import forking, pacing
from locknut.core.acquiring import acquire
from locknut.core.acquiring_at_once import acquire_at_once, release_at_once
from locknut.core.asking import PlainSender
from locknut.core.outcome_events import emit_timed_out
from locknut.core.releasing import release_again
from locknut.core.values import Busy, State
from locknut.errors import BackendUnavailable, ConfigurationError, DeadlockDetected, LocknutError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from locknut.core.callers import Caller
    from locknut.core.client import Client
    from locknut.core.holding import LeaseCore
    from locknut.core.lock_request import LockRequest
    from locknut.core.ports import Runtime

Part = tuple["Client", "LockRequest"]
GATHERED = "locknut.all"
"""Where a thread or task keeps what it took through `all`: order key and lease."""


def shown(leases: Iterable[Any]) -> str:
    """Several leases on one line, for people."""
    each = (f"{one.name!r} {one._ended or State.HELD}, fence {one.fence}" for one in leases)
    return "; ".join(each)


def in_order(parts: Iterable[Part]) -> list[Part]:
    """The one order in which everybody takes them; naming one twice is an error."""
    ordered = sorted(parts, key=order)
    for before, after in pairwise(ordered):
        if order(before) == order(after):
            client, request = after
            message = "named twice in one call"
            raise ConfigurationError(message, key=client.bare(request.key))
    if not ordered:
        raise ConfigurationError("name at least one lock")
    return ordered


def order(part: Part) -> tuple[str, str]:
    client, request = part
    return request.key, client.id


async def acquire_all(parts: Sequence[Part], until: float, acquired: list[LeaseCore]) -> bool:
    """Take all of them into `acquired`; False at `until`, with none of them held."""
    parts = [(forking.here(client), request) for client, request in parts]
    runtime = parts[0][0].runtime
    caller, limit = runtime.caller(), pacing.returns_at(runtime.now(), until)
    _refuse_deadlock(parts, caller)
    try:
        taken = await _at_once(parts, until, acquired)
        if taken is None:
            taken = await _in_turn(parts, until, acquired)
        if not taken:
            await _give_up(runtime, acquired, limit)
            return False
        for lease in acquired:
            lease.check()  # the first may have run out while the last was waited for
    except BaseException:
        await _give_up(runtime, acquired, limit)
        raise
    held = zip(map(order, parts), acquired, strict=True)
    caller.setdefault(GATHERED, []).extend(held)
    return True


async def _give_up(runtime: Runtime, acquired: list[LeaseCore], limit: float) -> None:
    """Use the caller's time as far as there is any; the rest is done behind its back."""
    taken, behind = acquired[:], PlainSender()
    try:
        with suppress(BackendUnavailable):
            until = min(limit, runtime.now() + pacing.GRACE)
            await runtime.finish(roll_back(taken), until, behind)
    finally:
        acquired[:] = [] if behind.unfinished is not None else taken


async def _at_once(parts: Sequence[Part], until: float, acquired: list[LeaseCore]) -> bool | None:
    """The short way, where they are of one engine that has it; None: they have to be waited for."""
    client = parts[0][0]
    if any(each is not client for each, _ in parts):
        return None
    answer = await acquire_at_once(client, [request for _, request in parts], until, acquired)
    if isinstance(answer, Busy) and client.runtime.now() >= until:
        for _, request in parts:
            emit_timed_out(client, request)
        return False
    return True if isinstance(answer, list) else None


async def _in_turn(parts: Sequence[Part], until: float, acquired: list[LeaseCore]) -> bool:
    """One after the other, each as if it were the only one."""
    for client, request in parts:
        one: list[Any] = []
        try:
            await acquire(client, request, client.runtime.caller(), until, one)
        finally:
            acquired.extend(one)
        if not one:
            return False
    return True


async def release_all(acquired: list[LeaseCore]) -> None:
    """Release together, last taken first; what fails does not keep the others."""
    failed: LocknutError | None = None
    while acquired:
        last = _releasable_together(acquired)
        client, counts = last[0]._client, [lease._count for lease in last]
        try:
            await release_at_once(client, last)
        except LocknutError as error:
            failed = failed or error
        except BaseException:  # interrupted (Ctrl-C): the others are released all the same
            for lease, count in zip(last, counts, strict=True):
                await release_again(client, lease, count)
            del acquired[-len(last) :]
            await release_all(acquired)
            raise
        del acquired[-len(last) :]
    if failed is not None:
        raise failed


def _releasable_together(acquired: list[LeaseCore]) -> list[LeaseCore]:
    """The last one, with those before it that one round trip can take back too."""
    client = acquired[-1]._client
    if not client.backend.batches:
        return acquired[-1:]
    others = [at for at, lease in enumerate(acquired) if lease._client is not client]
    return acquired[others[-1] + 1 if others else 0 :]


def let_go(parts: Sequence[Part], caller: Caller | None) -> None:
    """This thread or task does not hold these through `all` any more."""
    held = [] if caller is None else caller.get(GATHERED, [])
    over = set(map(order, parts))
    held[:] = [each for each in held if each[0] not in over]


async def roll_back(acquired: list[LeaseCore]) -> None:
    """Give back what was taken so far; the caller gets the error, or the None, that led here."""
    try:
        await release_all(acquired)
    except LocknutError:
        return


def _refuse_deadlock(parts: Sequence[Part], caller: Caller) -> None:
    gathered = caller.get(GATHERED, [])
    # Those that were released one by one, lost, or closed with their Locks are over.
    gathered[:] = [each for each in gathered if each[1].held]
    last = max((key for key, _ in gathered), default=("", ""))
    for client, request in parts:
        lease = caller.get(request.slot)
        if lease is not None and not isinstance(lease, list) and lease.held:
            message = "already held by this caller: ask for all of them in one call"
            raise DeadlockDetected(message, key=lease.name, backend=lease.backend)
        if last > order((client, request)):
            message = (
                "sorts before a lock this caller holds through another all(): "
                "ask for all of them in one call"
            )
            name = client.bare(request.key)
            raise DeadlockDetected(message, key=name, backend=client.backend.name)
