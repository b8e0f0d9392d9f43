"""Whether the engine works for us, now: a lock is taken and given back, and nothing is kept of it.

The lock is shared where the engine can do that, so that simultaneous pings do not wait
for each other. Its name is always the same, because engines remember a name for a while. It is not
a lease: it makes no events, nothing renews it, and it stands in no line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from locknut.core import validation
from locknut.core.asking import AcquireState
from locknut.core.giving_up import give_up
from locknut.core.lock_request import LockOptions
from locknut.core.values import Capability, Granted, Mode
from locknut.errors import BackendUnavailable, LocknutError

if TYPE_CHECKING:
    from locknut.core.client import Client
    from locknut.core.values import Claim

NAME: Final = "locknut.ping"
"""The name that is reserved for this, in each namespace."""
_TTL: Final = 5.0
"""How long the hold stays in the engine if we die meanwhile."""
_PAUSE: Final = 0.02
"""Before we ask again, where the lock cannot be shared and another ping has it."""


async def ping(client: Client, timeout: validation.Duration) -> float:
    """How many seconds it took. Raises BackendUnavailable also when the time is up."""
    client.ensure_open()
    runtime = client.runtime
    began = runtime.now()
    request = client.request(NAME, _options(client))
    state = AcquireState(runtime.caller(), began + validation.seconds(timeout, "timeout"), began)
    state.limit = state.until
    state.claim = client.claim(request, state.caller, waits=False)
    try:
        await _take(client, state, state.claim)
        command = client.backend.release(state.claim, outcome_unknown=False)
        state.unanswered = 1
        await runtime.finish(command, state.limit, state)
    except BaseException as error:
        await give_up(client, request, state)
        if isinstance(error, LocknutError):
            error.placed(None, client.backend.name)
        raise
    return runtime.now() - began


def _options(client: Client) -> LockOptions:
    backend = client.backend
    shared = Capability.SHARED in backend.capabilities
    ttl = min(max(_TTL, backend.min_ttl), backend.max_ttl)
    return LockOptions(ttl, auto_renew=False, mode=Mode.SHARED if shared else Mode.EXCLUSIVE)


async def _take(client: Client, state: AcquireState, claim: Claim) -> None:
    runtime = client.runtime
    while True:
        state.unanswered += 1
        answer = await runtime.finish(client.backend.attempt(claim, 0.0), state.limit, state)
        state.unanswered -= 1
        if isinstance(answer, Granted):
            return
        if runtime.now() + _PAUSE >= state.until:
            message = f"the engine answers, but somebody holds the reserved name {NAME!r}"
            raise BackendUnavailable(message)
        await runtime.signal().wait(runtime.now() + _PAUSE)
