"""The core's client and its leases, with a tongue: what they learn goes into the history."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from locknut.core.client import Client
from locknut.core.holding import Hold, LeaseCore
from locknut.core.values import Event as CoreEvent
from locknut.core.values import Renewed
from tests.simulation.checker.history import Kind
from tests.simulation.process import Process


class Visit(LeaseCore):
    """A lease that knows its story in the history."""

    __slots__ = ("story", "told")

    def __init__(self, *known: Any) -> None:  # as a LeaseCore is made
        super().__init__(*known)
        self.story = ""
        self.told = False


class SimClient(Client):
    """The core's client; what it learns from renewals goes into the history."""

    process: Process

    def renewed(self, hold: Hold, answer: Renewed, sent: float) -> None:
        before = hold.valid_until
        super().renewed(hold, answer, sent)
        lease = hold.lease()
        if isinstance(lease, Visit) and lease.story and hold.valid_until != before:
            until = self.process.true(hold.ends_at())
            self.process.tell(Kind.RENEWED, lease.name, lease.story, until=until)


class RecordingSink:
    """Hears everything; of some processes all but who waits: a client that nobody listens to may
    go another way there.
    """

    def __init__(self, emit: Callable[[CoreEvent], None], name: str) -> None:
        self.emit = emit
        self._hears_waiting = sum(name.encode()) % 2 == 0

    def wants(self, kind: str, waited: float = 0.0) -> bool:  # any wait
        return self._hears_waiting or kind != "waiting"
