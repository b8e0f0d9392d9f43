"""Which number a caller may enter a guard with: the fence of one exclusive hold."""

from __future__ import annotations

from typing import Protocol

from locknut.core.values import Mode
from locknut.errors import ConfigurationError, StaleFence, Unsupported


class Fenced(Protocol):
    """What a guard needs to know of a lease, blocking or asyncio."""

    @property
    def mode(self) -> Mode: ...

    @property
    def fence(self) -> int | None: ...


def fence_of(lease: Fenced | int) -> int:
    """The fence to enter with; a hold that others share has none that could order them (S16)."""
    if type(lease) is int:
        return _positive(lease)
    mode = getattr(lease, "mode", None)
    if mode is None or isinstance(lease, int):
        raise ConfigurationError(f"enter a guard with a lease or its fence, not with {lease!r}")
    if mode is not Mode.EXCLUSIVE:
        raise ConfigurationError(
            f"a guard is for exclusive holds: {mode.value} holders are there at the same time, "
            "and the guard would refuse all but the newest; take the lock itself (or .write())"
        )
    fence = lease.fence
    if fence is None:
        raise Unsupported("this engine gives no fences; choose one with the capability 'fencing'")
    return _positive(fence)


def _positive(fence: int) -> int:
    if not 0 < fence < 2**63:
        raise ConfigurationError(f"fence={fence} is not a fence: they are positive 63-bit numbers")
    return fence


def stale(fence: int, newest: int, resource: str) -> StaleFence:
    """The refusal, with both numbers and what to do."""
    return StaleFence(
        f"{resource} was entered with fence {newest}, and yours is {fence}: your hold has ended "
        "and somebody newer is at work; drop what you computed, take the lock again and start over"
    )


def forgotten(fence: int, newest: int, record: str, ways: str) -> StaleFence:
    """The refusal of a holder that had entered, by a record that knows nothing of it any more."""
    return StaleFence(
        f"{record} was entered with fence {fence}, and has {newest or 'nothing'} now: its memory "
        f"was lost ({ways}), and others may have been at work; drop what you computed, take the "
        "lock again and start over"
    )
