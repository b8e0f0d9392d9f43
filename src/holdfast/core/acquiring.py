"""Ask, wait, ask again: from a claim to its grant, or to the deadline.

Never decides who may ask (that is the line's), nor what a grant is worth (that is the hold's).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core import pacing
from holdfast.core.values import Answer, Claim, Granted
from holdfast.errors import BackendUnavailable

if TYPE_CHECKING:
    from holdfast.core.client import Client, Want
    from holdfast.core.ports import Backend, Runtime


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
    client: Client, want: Want, asking: Asking, until: float
) -> tuple[Granted, float] | None:
    """The grant and when it was asked for; None when `until` passed first."""
    backend, runtime = client.backend, client.runtime
    sent = runtime.now()
    asking.unanswered += 1
    try:
        answer = await runtime.finish(backend.attempt(asking.claim, 0.0))
        asking.unanswered -= 1
    except BackendUnavailable:
        answer, sent = await _ask_again(asking, until, backend, runtime)
    if isinstance(answer, Granted):
        return answer, sent  # the common case costs one command
    if until <= runtime.now():
        return None
    client.tell_want("waiting", want)
    return await _wait(client, asking, until)


async def _wait(client: Client, asking: Asking, until: float) -> tuple[Granted, float] | None:
    backend, runtime = client.backend, client.runtime
    # Watch before asking again, or a release could slip in between (port rule 4).
    with backend.watch(asking.claim, runtime.signal) as wake, client.awake(wake):
        while True:
            client.ensure_open()
            patience = max(0.0, until - runtime.now())
            sent = runtime.now()
            asking.unanswered += 1
            try:
                answer = await runtime.finish(backend.attempt(asking.claim, patience))
                asking.unanswered -= 1
            except BackendUnavailable:
                answer, sent = await _ask_again(asking, until, backend, runtime)
            if isinstance(answer, Granted):
                return answer, sent
            now = runtime.now()
            if now >= until:
                return None
            await wake.wait(min(until, now + answer.retry_in))


async def _ask_again(
    asking: Asking, until: float, backend: Backend, runtime: Runtime
) -> tuple[Answer, float]:
    """An engine out of reach is asked again, with the same claim, for a while (port rule 2)."""
    give_up = min(until, runtime.now() + pacing.OUTAGE_PATIENCE)
    tries = 0
    while True:
        again = runtime.now() + pacing.backoff(tries, runtime.random())
        await runtime.signal().wait(min(again, give_up))
        sent = runtime.now()
        tries += 1
        asking.unanswered += 1
        try:
            answer = await runtime.finish(backend.attempt(asking.claim, 0.0))
        except BackendUnavailable:
            if runtime.now() >= give_up:
                raise
        else:
            asking.unanswered -= 1
            return answer, sent
