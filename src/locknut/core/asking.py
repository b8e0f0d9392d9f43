"""Ask, wait, ask again: from a claim to its grant, or to the deadline.

This file decides neither who may ask (the line does), nor what a grant is worth (the hold does).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from locknut.core import pacing
from locknut.core.outcome_events import emit_waiting
from locknut.core.runtime_port import NEVER
from locknut.core.values import Answer, Busy, Claim, Granted
from locknut.errors import BackendUnavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from locknut.core.callers import Caller
    from locknut.core.client import Client
    from locknut.core.holding import Hold
    from locknut.core.lock_request import LockRequest
    from locknut.core.lookout import Lookout
    from locknut.core.queueing import Line, Waiter

T = TypeVar("T")


class PlainSender:
    """A `ports.Sender`."""

    __slots__ = ("unfinished",)

    def __init__(self) -> None:
        self.unfinished: Awaitable[object] | None = None


class AcquireState:
    """How far one caller has got, so that whatever interrupts it can be undone."""

    __slots__ = (
        "caller",
        "claim",
        "contended",
        "ended",
        "hold",
        "limit",
        "line",
        "unanswered",
        "unfinished",
        "until",
        "waiter",
        "withdrawn",
    )

    def __init__(self, caller: Caller, until: float, asked: float, contended: bool = False):
        self.caller = caller
        self.until = until
        self.contended = contended
        """Whether the caller had to wait."""
        self.limit = until if until == NEVER else pacing.returns_at(asked, until)
        """When the caller returns even if a command is not answered."""
        self.unfinished: Awaitable[object] | None = None
        """The end of a command that was left behind: see `ports.Sender`."""
        self.line: Line | None = None
        self.waiter: Waiter | None = None
        self.claim: Claim | None = None
        self.withdrawn = False
        """Whether that is being taken back already: from then on nobody can go on with it."""
        self.unanswered = 0
        """Sendings of the claim without an answer: any may still be applied, later (L3)."""
        self.hold: Hold | None = None
        self.ended: Hold | None = None
        """The hold while it is given back: nobody else would do it."""

    def inherit(self, left: tuple[Claim, int]) -> None:
        """Take over the claim of a caller that gave up, and with it its place in the engine."""
        self.claim, self.unanswered = left

    @property
    def outcome_unknown(self) -> bool:
        return self.unanswered > 0


async def wait(  # noqa: C901  # one path, to be read from top to bottom
    client: Client, request: LockRequest, claim: Claim, state: AcquireState, refused: Busy
) -> tuple[Granted, float] | None:
    """Wait after a refusal: the grant and when it was asked for, or None if time runs out first."""
    backend, runtime, until = client.backend, client.runtime, state.until
    if until <= runtime.now():
        if not refused.queued and state.unanswered == 0:
            state.claim = None  # there is nothing to withdraw
        return None
    if state.waiter is None:  # else it has waited already, in the line
        runtime.begins_to_wait()
    emit_waiting(client, request, state)
    lookout = _lookout(client, request, state)
    # Watch before asking again, or a release could slip in between (port rule 4).
    with backend.watch(claim, runtime.signal) as wake, client.awake(wake):
        while True:
            if client.closed:
                client.ensure_open()
            sent = runtime.now()
            patience = max(0.0, (until if lookout is None else min(until, lookout.due)) - sent)
            state.unanswered += 1
            try:
                answer = await runtime.finish(backend.attempt(claim, patience), state.limit, state)
                state.unanswered -= 1
            except BackendUnavailable as error:
                if runtime.now() >= until:
                    return None  # it was refused before, and this was the last question
                answer, sent = await ask_again(client, state, attempt(client, claim), error)
            if isinstance(answer, Granted):
                return answer, sent
            now = runtime.now()
            if now >= until:
                return None
            again = min(until, now + answer.retry_in)
            if lookout is not None:
                await lookout.look()
                again = min(again, lookout.due)
            await wake.wait(again)


def _lookout(client: Client, request: LockRequest, state: AcquireState) -> Lookout | None:
    """A watch for deadlocks, if it was asked for: only who holds something can be part of one."""
    if not client.breaks or not state.caller.leases():
        return None
    from locknut.core.lookout import Lookout  # few programs ask for it

    return Lookout(client, request, state)


def attempt(client: Client, claim: Claim) -> Callable[[], Coroutine[Any, Any, Answer]]:
    return lambda: client.backend.attempt(claim, 0.0)


async def ask_again(
    client: Client,
    state: AcquireState,
    command: Callable[[], Coroutine[Any, Any, T]],
    error: BackendUnavailable,
) -> tuple[T, float]:
    """Ask an engine that is out of reach again, with the same claim, for a while (port rule 2)."""
    runtime = client.runtime
    give_up = min(state.until, runtime.now() + pacing.OUTAGE_PATIENCE)
    tries = 0
    while True:
        again = runtime.now() + pacing.backoff(tries, runtime.random())
        await runtime.signal().wait(min(again, give_up))
        client.ensure_open()  # closing hangs up: that is not an outage
        sent = runtime.now()
        if state.unfinished is not None or sent >= state.limit:
            raise error
        tries += 1
        state.unanswered += 1
        try:
            answer = await runtime.finish(command(), state.limit, state)
        except BackendUnavailable as repeated:
            if state.unfinished is None:  # one that was left behind does not say what is wrong
                error = repeated
            if runtime.now() >= give_up:
                raise error from None
        else:
            state.unanswered -= 1
            return answer, sent
