"""The options of a lock: each is checked once, in the same way for both faces."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from locknut.core import validation
from locknut.core.durations import spell
from locknut.core.lock_request import LockOptions
from locknut.core.values import LockInfo, Mode
from locknut.errors import AcquireTimeout, ConfigurationError

if TYPE_CHECKING:
    from locknut.core.client import Client
    from locknut.core.lock_request import LockRequest

OnLost = Callable[[Any], object] | Literal["ignore"] | None
OnBusy = Literal["raise", "skip", "wait"]


class LockKeywords(TypedDict, total=False):
    """The keyword arguments of `lock`, which are those of `locked` too: a test keeps them equal."""

    ttl: validation.Duration | None
    auto_renew: bool
    max_hold: validation.Duration | None
    fair: bool
    owner: str | None
    on_lost: OnLost


def make_options(  # noqa: PLR0913  # the public options of a lock, each by name
    client: Client,
    *,
    ttl: validation.Duration | None = None,
    auto_renew: bool = True,
    max_hold: validation.Duration | None = None,
    fair: bool = False,
    owner: str | None = None,
    mode: Mode = Mode.EXCLUSIVE,
    permits: int = 1,
    hand_over: bool = True,
) -> LockOptions:
    """Return the checked options of a lock, or raise an error that names the wrong argument."""
    backend = client.backend
    if owner is not None:
        validation.name(owner, "owner")
    validation.able(backend, mode, fair=fair, owner=owner)
    seconds = validation.ttl(ttl, backend.min_ttl, backend.max_ttl)
    longest = validation.max_hold(max_hold)
    return LockOptions(
        seconds, bool(auto_renew), longest, bool(fair), owner, mode, permits, hand_over
    )


def check_options(timeout: validation.Duration | None, options: LockKeywords) -> None:
    """Refuse what is wrong on every engine, before it is known which one it is."""
    validation.wait(timeout)
    validation.ttl(options.get("ttl"), 0, validation.FOREVER)
    validation.max_hold(options.get("max_hold"))
    if (owner := options.get("owner")) is not None:
        validation.name(owner, "owner")
    checked_on_lost(options.get("on_lost"))


def until(client: Client, timeout: validation.Duration | None) -> float:
    """Return the deadline of a wait that starts now."""
    if timeout is None:
        return validation.FOREVER
    return client.runtime.now() + validation.wait(timeout)


def chosen(
    blocking: object, timeout: validation.Duration | None, default: validation.Duration | None
) -> validation.Duration | None:
    """Return the timeout that `acquire(blocking, timeout)` means; None is the lock's own."""
    if blocking:
        return default if timeout is None else timeout
    if timeout is not None and (timeout != -1 or isinstance(timeout, str)):
        raise ConfigurationError("timeout cannot be combined with blocking=False")
    return 0


def checked_on_lost(on_lost: OnLost) -> OnLost:
    if on_lost is None or on_lost == "ignore" or callable(on_lost):
        return on_lost
    raise ConfigurationError(f'on_lost must be a function or "ignore", got {on_lost!r}')


def timed_out(
    client: Client, request: LockRequest, timeout: validation.Duration | None, info: LockInfo | None
) -> AcquireTimeout:
    """Return an error that says who has the lock and what to do next."""
    name = client.bare(request.key)
    holders = "" if info is None or not info.holders else f"; held by {info.holders[0]}"
    advice = f"wait longer (timeout=), or {client.how_to_see(name)}"
    message = f"not acquired within {spell(validation.wait(timeout))}{holders}; {advice}"
    return AcquireTimeout(message, key=name, backend=client.backend.name)
