"""The events of a caller on its way into a lock and out of it: one for each outcome.

After every `waiting` comes one outcome, and after every grant one end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from locknut.core import losing

if TYPE_CHECKING:
    from locknut.core.asking import AcquireState
    from locknut.core.client import Client
    from locknut.core.holding import LeaseCore
    from locknut.core.lock_request import LockRequest

CANCELLED = "cancelled"
"""Why an acquire failed that was cancelled or interrupted: by its task, a timeout, or Ctrl-C."""


def emit_waiting(client: Client, request: LockRequest, state: AcquireState) -> None:
    """Emit the event of a caller that has to wait: once, in the line and in the engine."""
    if not state.contended:
        state.contended = True
        client.emit_request("waiting", request)


def emit_timed_out(
    client: Client,
    request: LockRequest,
    waited: float | None = None,
    contended: bool = False,
) -> None:
    """Emit the event of a caller that gave up. It names the holder, if that is in this process."""
    if client.events.wants("timed_out"):
        holder = client.held_here(request.key, request.options.mode)
        facts = {"waited": waited, "holder": holder, "contended": contended}
        client.emit_request("timed_out", request, **facts)


def emit_failed(
    client: Client, request: LockRequest, error: BaseException, waited: float, contended: bool
) -> None:
    """Emit the event of a caller that gets an error, or was cancelled. The text of an error is for
    the caller: an event has its kind.
    """
    if client.events.wants("failed"):
        reason = type(error).__name__ if isinstance(error, Exception) else CANCELLED
        facts = {"waited": waited, "reason": reason, "contended": contended}
        client.emit_request("failed", request, **facts)


def emit_released(client: Client, lease: LeaseCore, reason: str = "") -> None:
    """Wake the callers that wait for the end of this lease, and emit the event."""
    if lease._signals:
        losing.notify_lease(client, lease)
    if client.events.wants("released"):
        client.emit("released", lease, held=client.runtime.now() - lease._since, reason=reason)


def emit_lost(client: Client, lease: LeaseCore, reason: str) -> None:
    """Emit the event of a lease that was released too late: the engine did not have it any more."""
    client.emit("lost", lease, held=client.runtime.now() - lease._since, reason=reason or "taken")
