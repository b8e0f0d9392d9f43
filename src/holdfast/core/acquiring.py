"""Ask, wait, ask again: from a claim to its grant, or to the deadline.

Never decides who may ask (that is the line's), nor what a grant is worth (that is the hold's).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core import pacing
from holdfast.core.values import Answer, Claim, Granted
from holdfast.errors import BackendUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.ports import Backend, Runtime, Signal


class Asking:
    """A claim on its way, with what is not known about it."""

    __slots__ = ("claim", "unanswered")

    def __init__(self, claim: Claim):
        self.claim = claim
        self.unanswered = 0
        """Sendings without an answer: any of them may still be applied, later (L3)."""

    @property
    def doubtful(self) -> bool:
        return self.unanswered > 0


async def ask(
    asking: Asking,
    until: float,
    backend: Backend,
    runtime: Runtime,
    attend: Callable[[Signal], Signal],
) -> tuple[Granted, float] | None:
    """The grant and when it was asked for; None when `until` passed first.

    `attend` is told the signal that will be waited on, and raises when waiting makes no sense.
    """
    answer, sent = await _attempt(asking, until, 0.0, backend, runtime)
    if isinstance(answer, Granted):
        return answer, sent  # the common case costs one command
    if until <= runtime.now():
        return None
    # Watch before asking again, or a release could slip in between (port rule 4).
    with backend.watch(asking.claim, runtime.signal) as wake:
        while True:
            attend(wake)
            patience = max(0.0, until - runtime.now())
            answer, sent = await _attempt(asking, until, patience, backend, runtime)
            if isinstance(answer, Granted):
                return answer, sent
            now = runtime.now()
            if now >= until:
                return None
            await wake.wait(min(until, now + answer.retry_in))


async def _attempt(
    asking: Asking, until: float, patience: float, backend: Backend, runtime: Runtime
) -> tuple[Answer, float]:
    """One answered attempt; an engine out of reach is asked again for a while (port rule 2)."""
    tries = 0
    give_up = 0.0
    while True:
        sent = runtime.now()
        asking.unanswered += 1
        try:
            answer = await runtime.finish(backend.attempt(asking.claim, patience))
        except BackendUnavailable:
            now = runtime.now()
            give_up = give_up or min(until, sent + pacing.OUTAGE_PATIENCE)
            again = now + pacing.backoff(tries, runtime.random())
            tries += 1
            if again >= give_up:
                raise
            await runtime.signal().wait(again)
        else:
            asking.unanswered -= 1
            return answer, sent
