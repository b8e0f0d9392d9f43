"""Handing a hold to another process, or to a later one: detach to a text, attach from it.

The text is a secret: whoever has it can take the hold over, once. `attach` is a compare-and-swap of
the claim id in the engine, so of two workers that got the same text only the first succeeds (S15).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from locknut.core import forking, losing, pacing, validation
from locknut.core.holding import Hold
from locknut.core.lock_request import LockOptions
from locknut.core.outcome_events import emit_lost, emit_released
from locknut.core.releasing import UNCONFIRMED, pass_on_turn_of, release_quietly
from locknut.core.values import Capability, Claim, Granted, Mode, State
from locknut.errors import (
    BackendUnavailable,
    ConfigurationError,
    LeaseLost,
    LocknutError,
    NotHeld,
)

if TYPE_CHECKING:
    from locknut.core.client import Client
    from locknut.core.holding import LeaseCore
    from locknut.core.ports import Backend

PREFIX = "locknut1."
DEFAULT_TTL = 30.0


def checked_ttl(backend: Backend, ttl: validation.Duration | None) -> float | None:
    """How long a detached hold is to live, as it may be; None: as long as it lives now."""
    validation.has(backend, Capability.DETACHING)
    longest = backend.max_detached_ttl or backend.max_ttl
    return validation.ttl(ttl, backend.min_ttl, longest)


async def detach(client: Client, lease: LeaseCore, ttl: float | None) -> str:
    """Stop keeping the hold here; it lives on in the engine for `ttl`, until `attach`."""
    hold = lease._hold
    if client.nested():
        client.refuse_nested()
    losing.expire_if_due(client, hold)
    # Before the lease ends: where no more files can be opened, an import fails.
    import base64  # noqa: F401  # few programs detach, and `import locknut` stays fast
    import json  # noqa: F401

    ttl, ours = ttl or hold.ttl or DEFAULT_TTL, False
    try:
        with client.guard:
            _refuse_unless_alone(lease)
            ours = True  # no call from here on: an interrupt (Ctrl-C) finds both or none
            lease._ended = State.DETACHED
            _let_go(client, lease)
            owner = lease._caller()
            if owner is not None:
                owner.pass_identity()  # the hold lives on under it, and is nobody's
        text = _text(hold, ttl)
        await client.runtime.finish(_detach(client, lease, ttl))
        losing.notify_lease(client, lease)
        client.emit("detached", lease, held=client.runtime.now() - lease._since)
    except LeaseLost:
        raise
    except BaseException as error:
        if ours and not isinstance(error, LocknutError):
            with client.guard:
                _let_go(client, lease)
            _give_back(client, hold, ttl)
            pass_on_turn_of(client, hold)
        if ours:
            emit_released(client, lease, UNCONFIRMED)
        raise
    return text


def _refuse_unless_alone(lease: LeaseCore) -> None:
    if lease._ended is not None:
        raise lease._no_longer_held()
    if lease._count > 1 or lease._inner is not None or lease._outer is not None:
        message = "this lease was entered more than once: release the inner entries first"
        raise NotHeld(message, key=lease.name, backend=lease.backend)


def _let_go(client: Client, lease: LeaseCore) -> None:
    """Under the guard: nobody here has the hold any more. It may be asked for again."""
    client.drop(lease._hold)
    lease._forget()


async def _detach(client: Client, lease: LeaseCore, ttl: float) -> None:
    hold = lease._hold
    try:
        detached = await client.backend.detach(hold.claim, ttl)
    except BaseException:
        _give_back(client, hold, ttl)
        raise
    finally:
        pass_on_turn_of(client, hold)
    if not detached:
        lease._ended = State.LOST
        lease._reason = "taken"
        emit_lost(client, lease, "taken")
        raise lease._no_longer_held()


def _give_back(client: Client, hold: Hold, ttl: float) -> None:
    """Nobody will ever have the text. If the hold was detached all the same, it lives for `ttl`, so
    the keeper has that long to release it, however long the engine is out of reach.
    """
    claim = hold.claim._replace(ttl=max(ttl, hold.claim.ttl or 0.0))
    client.keeper.undo(claim, outcome_unknown=True)


def _text(hold: Hold, detached_ttl: float) -> str:
    claim = hold.claim
    facts = [
        claim.key,
        claim.id,
        hold.raw,
        hold.number,
        hold.options.ttl,
        claim.mode.value,
        claim.permits,
        claim.owner,
        hold.options.auto_renew,
        hold.options.max_hold,
        detached_ttl,
    ]
    import base64
    import json

    packed = json.dumps(facts, separators=(",", ":")).encode()
    return PREFIX + base64.urlsafe_b64encode(packed).decode().rstrip("=")


def _facts(client: Client, text: str) -> list[Any]:
    import base64
    import json

    try:
        if not isinstance(text, str) or not text.startswith(PREFIX):
            raise ValueError(PREFIX)
        packed = text.removeprefix(PREFIX)
        facts = json.loads(base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4)))
        if not (
            isinstance(facts, list) and len(facts) == 11 and isinstance(facts[0], str)
        ):  # as _text writes them
            raise ValueError(PREFIX)
    except ValueError:
        message = "this is not a text that detach() gave (it begins with 'locknut1.')"
        raise ConfigurationError(message, backend=client.backend.name) from None
    if not facts[0].startswith(client.prefix):
        message = f"this text belongs to another namespace than {client.prefix[:-1]!r}"
        raise ConfigurationError(message, backend=client.backend.name)
    return facts


async def _attach(client: Client, detached: Claim, claim: Claim) -> tuple[Granted | None, float]:
    """The grant and when it was asked for; an engine out of reach is asked again for a while."""
    runtime = client.runtime
    give_up = runtime.now() + pacing.OUTAGE_PATIENCE
    tries = 0
    while True:
        sent = runtime.now()
        try:
            return await runtime.finish(client.backend.attach(detached, claim)), sent
        except BackendUnavailable:
            tries += 1
            again = runtime.now() + pacing.backoff(tries, runtime.random())
            if again >= give_up:
                raise
            await runtime.signal().wait(again)


async def attach(client: Client, text: str, acquired: list[LeaseCore]) -> LeaseCore:
    """Take over a detached hold: its fence goes on, its ttl starts anew."""
    client = forking.here(client)
    client.ensure_open()
    validation.has(client.backend, Capability.DETACHING)
    key, detached_id, raw, number, ttl, mode, permits, owner, auto_renew, max_hold, detached_ttl = (
        _facts(client, text)
    )
    options = LockOptions(
        ttl, auto_renew, max_hold, False, owner, Mode(mode), permits, False
    )  # a tuple's fields
    request, caller = client.request(client.bare(key), options), client.runtime.caller()
    claim = client.claim(request, caller)
    detached = claim._replace(id=detached_id, ttl=detached_ttl)
    client.keeper.ring()  # first: where no thread can be started for it, the text is not spent
    try:
        granted, sent = await _attach(client, detached, claim)
        if granted is not None:
            hold = Hold(claim, options, granted, sent, None)
            hold.raw, hold.number = raw, number
            client.lend(hold, caller, request.slot, acquired)
            client.begin(hold)
    except BaseException:
        # It may have been applied, or may be later. What was detached stays so for the next one.
        if not acquired:
            client.keeper.undo(claim, outcome_unknown=True, back_to=detached)
        raise
    if not acquired:
        message = "the detached hold is gone: it was attached elsewhere, released, or it expired"
        raise LeaseLost(message, key=client.bare(key), backend=client.backend.name)
    (lease,) = acquired
    if client.closed:  # meanwhile: either closing has seen this hold, or we see that here
        await release_quietly(client, lease)
        client.ensure_open()
    client.emit("granted", lease, reason="attached")
    return lease
