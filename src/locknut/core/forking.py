"""A forked child: what it inherited is the parent's and over here; a new client takes its place.

A Lock is a name, so it works in the child. A hold is not: it belongs to the parent, whose leases
are inert here. The new client is made when the child first asks for something.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from locknut.core import losing
from locknut.core.values import State
from locknut.errors import BackendUnavailable

if TYPE_CHECKING:
    from locknut.core.client import Client
    from locknut.core.ports import Backend

FORKED = "this Locks was made before a fork; connect again in the child"


def leave_behind(client: Client) -> None:
    """In the child, before anything lets go of a lease: nothing here says a word to the engine."""
    if not client.closed:  # a closed client stays closed
        client.closed = FORKED
    client.guard = client.runtime.guard()
    for hold in client.holds.values():
        hold.ending = True
        losing.end_leases(hold, State.RELEASED, "forked")
    for each in (client.holds, client.lines, client.waiting, client.questions):
        each.clear()
    client.keeper.leave_behind()
    if client.recorder is not None:
        client.recorder.leave_behind()
    client.backend.forked()
    client.runtime.forked()
    client.backend = Elsewhere(client.backend)
    client.take_guard()


def here(client: Client) -> Client:
    """The client of this process; itself, unless it was made before a fork."""
    while client.closed is FORKED and client.reopen is not None:
        client = client.successor or client.reopen(client)
    return client


class Elsewhere:
    """The parent's backend: what it is can be asked in the child, but it does nothing any more.

    Tasks that were in the middle of an acquire at the fork exist in the child as well. When they
    are collected they would withdraw their claims, which are the parent's.
    """

    def __init__(self, backend: Backend):
        self.name = backend.name
        self.capabilities = backend.capabilities
        self.default_ttl = backend.default_ttl
        self.min_ttl = backend.min_ttl
        self.max_ttl = backend.max_ttl
        self.max_detached_ttl = backend.max_detached_ttl
        self.heartbeat = backend.heartbeat
        self.no_tombstones = backend.no_tombstones
        self.waits_on_first_attempt = self.batches = False
        self.passes_notes = self.notices_hang_up = False
        self.settles_at = float("inf")
        self.inside = bool

    def forked(self) -> None:
        """It is the child of a child: there is nothing left to forget."""

    def _refuse(self, *_: Any, **__: Any) -> Any:
        """At once, not when it is awaited: a collected task awaits nothing."""
        raise BackendUnavailable(FORKED, backend=self.name)

    attempt = attempt_all = renew = release = release_all = downgrade = _refuse
    detach = attach = undo_attach = break_hold = inspect = inspect_all = inspect_holders = _refuse
    watch = listen = scatter = hung_up = hold_check = server = tidy = settle = _refuse
    checks = write_history = read_history = close = dropped = _refuse
