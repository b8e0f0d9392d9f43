"""Several locks at once: all or nothing, in one global order, so that two callers never deadlock.

The order is by name, then by the Locks' id. That holds only if nobody who already has one of them
asks for more, so such a call is refused instead of risking it (L15).
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from holdfast.core.entering import acquire
from holdfast.core.leaving import release, release_again
from holdfast.errors import ConfigurationError, DeadlockDetected, HoldfastError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.core.client import Client, Want
    from holdfast.core.holding import LeaseCore, Mine

Part = tuple["Client", "Want"]
GATHERED = "holdfast.all"
"""Where a thread or task keeps what it took through `all`: order key and lease."""


def in_order(parts: Iterable[Part]) -> list[Part]:
    """The one order in which everybody takes them; naming one twice is an error."""
    ordered = sorted(parts, key=order)
    for before, after in pairwise(ordered):
        if order(before) == order(after):
            client, want = after
            message = "named twice in one call"
            raise ConfigurationError(message, key=client.bare(want.key))
    if not ordered:
        raise ConfigurationError("name at least one lock")
    return ordered


def order(part: Part) -> tuple[str, str]:
    client, want = part
    return want.key, client.id


async def acquire_all(parts: Sequence[Part], until: float, made: list[Any]) -> bool:
    """Take all of them, in order, into `made`; False at `until`, with none of them held."""
    mine = parts[0][0].runtime.mine()
    _refuse_deadlock(parts, mine)
    try:
        for client, want in parts:
            one: list[Any] = []
            try:
                await acquire(client, want, until, one)
            finally:
                made.extend(one)
            if not one:
                await parts[0][0].runtime.finish(roll_back(made))
                return False
        for lease in made:
            lease.check()  # the first may have run out while the last was waited for
    except BaseException:
        await parts[0][0].runtime.finish(roll_back(made))
        raise
    held = zip(map(order, parts), made, strict=True)
    mine.setdefault(GATHERED, []).extend(held)
    return True


async def release_all(made: list[Any]) -> None:
    """Release together, last taken first; what fails does not keep the others."""
    failed: HoldfastError | None = None
    while made:
        lease: LeaseCore = made[-1]
        count = lease._count
        try:
            await release(lease._client, lease)
        except HoldfastError as error:
            failed = failed or error
        except BaseException:  # interrupted (Ctrl-C): the others are released all the same
            await release_again(lease._client, lease, count)
            made.pop()
            await release_all(made)
            raise
        made.pop()
    if failed is not None:
        raise failed


def let_go(parts: Sequence[Part], mine: Mine | None) -> None:
    """This thread or task does not hold these through `all` any more."""
    held = [] if mine is None else mine.get(GATHERED, [])
    over = set(map(order, parts))
    held[:] = [each for each in held if each[0] not in over]


async def roll_back(made: list[Any]) -> None:
    """Give back what was taken so far; the caller gets the error, or the None, that made us."""
    try:
        await release_all(made)
    except HoldfastError:
        return


def _refuse_deadlock(parts: Sequence[Part], mine: Mine) -> None:
    gathered = mine.get(GATHERED, [])
    # Released one by one, lost, or closed with their Locks: over, whoever ended them.
    gathered[:] = [each for each in gathered if each[1].held]
    held_through_all = [key for key, _ in gathered]
    for client, want in parts:
        lease = mine.get(want.slot)
        if lease is not None and not isinstance(lease, list) and lease.held:
            message = "already held by this caller: ask for all of them in one call"
            raise DeadlockDetected(message, key=lease.name, backend=lease.backend)
        if any(held > order((client, want)) for held in held_through_all):
            message = (
                "sorts before a lock this caller holds through another all(): "
                "ask for all of them in one call"
            )
            name = client.bare(want.key)
            raise DeadlockDetected(message, key=name, backend=client.backend.name)
