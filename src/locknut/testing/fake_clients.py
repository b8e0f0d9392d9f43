"""Swaps what a client is made of while it is faked, and puts it back afterwards.

A Locks, a Lock and a decorated function all refer to one `Client`, and may have been made when a
module was imported. So the client stays the same object, and everything inside it is exchanged.
What it was made of lives on under another identity: its keeper and its leases do not notice.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from locknut.core import forking, losing
from locknut.core.client import Client
from locknut.core.values import State
from locknut.errors import ConfigurationError
from locknut.runtimes.loop import LoopRuntime
from locknut.testing.fake_clock import Clock, FakeLoop, FakeThreads
from locknut.testing.fake_engines import FakeEngine

KEPT = ("serial", "fence_step", "how_to_see", "carried", "identity")
"""The number that every Lock knows which exists, how fences are counted, a hint, and pickles."""
OVER = "the test that this fake Locks belonged to is over"
ELSEWHERE = (
    "the locks of this test are fakes, which do not leave its process: in a forked child they "
    "would exclude nobody. Give the test real locks on files of its own: the marker locknut_real, "
    'and locknut.connect(f"file://{tmp_path}") for the code under test'
)


class Double:
    """One client while it is faked."""

    def __init__(self, client: Client, engine: FakeEngine, clock: Clock):
        _refuse_waiting(client)
        self.client = client
        self.engine = engine
        self._clock = clock
        self._before: dict[str, Any] = vars(client)
        self._identity = Client.__new__(Client)
        self._identity.__dict__ = self._before
        self._hand_to(self._identity)
        self._pause_history(paused=True)
        kept = {name: self._before[name] for name in KEPT}
        client.__dict__ = {**vars(self._made()), **kept}
        client.keeper.client = client.schedule.client = client
        clock.keep_with(client)

    def _made(self) -> Client:
        before = self._identity
        colour = FakeLoop if isinstance(before.runtime, LoopRuntime) else FakeThreads
        runtime = colour(self._clock)
        return Client(
            backend=self.engine.like(before.backend, runtime),
            runtime=runtime,
            keeper_runtime=FakeThreads(self._clock),
            keeper_backend=partial(self.engine.like, before.backend),
            keeper_start=before.keeper._start,
            events=before.events,
            lease_type=before.lease_type,
            namespace=before.prefix[:-1],
            label=before.label,
            cohort=before.cohort,
            id=before.id,
        )

    def _pause_history(self, *, paused: bool) -> None:
        """The listeners stay; what happens to fakes is not written into a real engine."""
        if self._before["recorder"] is not None:
            self._before["recorder"].paused = paused

    def _hand_to(self, client: Client) -> None:
        """Keeper, schedule and leases from before belong to this one."""
        self._before["keeper"].client = self._before["schedule"].client = client
        for hold in list(self._before["holds"].values()):
            lease = hold.lease()
            while lease is not None:
                lease._client = client
                lease = lease._inner

    def end(self) -> None:
        """Nobody waits any more, and the keeper ends."""
        self.client.closed = self.client.closed or OVER
        for signal in list(self.client.waiting):
            signal.notify()
        self.client.keeper.stop()

    def waited_for(self) -> bool:
        """Whether a thread has yet to notice the end. (A task does so when its loop runs again.)"""
        return isinstance(self.client.runtime, FakeThreads) and bool(self.client.waiting)

    def leave_behind(self) -> None:
        """In a forked child: the fake says why it does nothing, and the parent's real holds are not
        touched, whatever is put back here later.
        """
        forking.leave_behind(self._identity)
        if self.client.closed is forking.FORKED:
            self.client.closed = ELSEWHERE
        vars(self.client.backend)["fake"] = True

    def put_back(self) -> None:
        """The client is what it was before."""
        for hold in list(self.client.holds.values()):
            hold.ending = True
            losing.end_leases(hold, State.RELEASED)  # or their end would be told to the real one
        self.client.__dict__ = self._before
        self._hand_to(self.client)
        self._pause_history(paused=False)


def _refuse_waiting(client: Client) -> None:
    if client.waiting and not getattr(client.runtime, "gone", False):
        message = (
            f"a thread or task has been waiting for a real lock of {client.id} since before the "
            "test: stop it first, or begin the fake locks before it"
        )
        raise ConfigurationError(message, backend=client.backend.name)
