"""The core's client and its leases, with a tongue: what they learn goes into the history."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from locknut.core.client import Client
from locknut.core.holding import Hold, LeaseCore
from locknut.core.values import Event as CoreEvent
from locknut.core.values import RenewalReport, Renewed
from tests.simulation.checker.history import Kind
from tests.simulation.process import Process

Renews = Callable[[Client, Hold, Renewed, float], None]


class Visit(LeaseCore):
    """A lease that knows its story in the history."""

    __slots__ = ("story", "told")

    def __init__(self, *known: Any) -> None:  # as a LeaseCore is made
        super().__init__(*known)
        self.story = ""
        self.told = False


class SimClient(Client):
    """The core's client, in a simulated process."""

    process: Process


def recorded_renewals(renewed: Renews) -> Renews:
    """What a client learns from renewals goes into the history."""

    def recorded(client: Client, hold: Hold, answer: Renewed, sent: float) -> None:
        before = hold.valid_until
        renewed(client, hold, answer, sent)
        lease = hold.lease()
        if not isinstance(client, SimClient) or hold.valid_until == before:
            return
        if isinstance(lease, Visit) and lease.story:
            until = client.process.true(hold.ends_at())
            client.process.tell(Kind.RENEWED, lease.name, lease.story, until=until)

    return recorded


class RecordingSink:
    """Hears everything; of some processes all but who waits: a client that nobody listens to may
    go another way there.
    """

    def __init__(self, emit: Callable[[CoreEvent], None], name: str) -> None:
        self.emit = emit
        self._hears_waiting = sum(name.encode()) % 2 == 0
        self.measured = self._hears_waiting

    def renewal(self, report: RenewalReport) -> None:
        """The simulator has its own record of them."""

    def wants(self, kind: str, waited: float = 0.0) -> bool:  # any wait
        return self._hears_waiting or kind != "waiting"
