"""From a call of acquire to a lease: re-entry, the line, the engine.

Whatever interrupts a caller (a timeout, a cancellation, Ctrl-C, an error), `giving_up` undoes just
as much as had been done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from locknut.core import forking, losing, pacing
from locknut.core.asking import AcquireState, ask_again, attempt, wait
from locknut.core.callers import Caller
from locknut.core.giving_up import give_up, withdraw
from locknut.core.holding import Hold, LeaseCore
from locknut.core.outcome_events import emit_failed, emit_timed_out, emit_waiting
from locknut.core.queueing import Line
from locknut.core.releasing import release_quietly
from locknut.core.values import Answer, Claim, Granted, Mode
from locknut.errors import BackendUnavailable, DeadlockDetected, LocknutError

if TYPE_CHECKING:
    from locknut.core.client import Client
    from locknut.core.lock_request import LockRequest


async def acquire(  # noqa: C901, PLR0912, PLR0915  # one path, to be read from top to bottom
    client: Client,
    request: LockRequest,
    caller: Caller,
    until: float,
    acquired: list[LeaseCore],
    contended: bool = False,
) -> None:
    """Put a lease into `acquired`, or nothing at `until`. The lease is there the moment it exists,
    so that a caller that is interrupted right then can still release it.

    A free lock is taken right here, in one command and few calls; `_win` does all the waiting.
    """
    if client.closed:
        client = forking.here(client)
    if client.in_guard() or client.in_engine():
        client.refuse_nested()
    if request.slot in caller and _enter_again(client, request, caller, acquired):
        return
    if client.closed:
        client.ensure_open()
    runtime = client.runtime
    asked = sent = runtime.now()
    state = AcquireState(caller, until, asked, contended)
    try:
        if request.queues_locally and not (client.breaks and caller.leases()):  # as `join`
            state.line = own = Line(request.key)
            if client.lines.setdefault(request.key, own) is not own:
                _wait_behind(client, request, state, own)
        if state.waiter is None:
            claim = state.claim = client.claim(request, caller, waits=until > asked)
            state.unanswered = 1
            try:
                patience = client.patience(until - asked) if client.waits_on_first_attempt else 0.0
                command = client.backend.attempt(claim, patience)
                answer = await runtime.finish(command, state.limit, state)
                state.unanswered = 0
            except BackendUnavailable as error:
                answer, sent = await ask_again(client, state, attempt(client, claim), error)
            hold = _plain(client, request, state, answer, sent)
            if hold is None:
                hold = await _win(client, request, state, answer, sent)
        else:
            hold = await _wait_in_line(client, request, state)
        if hold is None:
            await give_up(client, request, state)
            emit_timed_out(client, request, runtime.now() - asked, state.contended)
            return
        lease: LeaseCore | None
        if hold.number == 0:
            lease = client.lend(hold, caller, request.slot, acquired)
            client.begin(hold)
        else:
            lease = _lend_handed_over(client, request, hold, caller, acquired)
        if client.closed and lease is not None:
            # It was closed meanwhile: either closing has seen this hold, or we see that here.
            await release_quietly(client, lease)
            client.ensure_open()
    except BaseException as error:
        if not acquired:
            await give_up(client, request, state)
        if isinstance(error, LocknutError):
            error.placed(client.bare(request.key), client.backend.name)
        emit_failed(client, request, error, runtime.now() - asked, state.contended)
        raise
    if lease is None:  # handed over to us, and over before we woke up
        await acquire(client, request, caller, until, acquired, state.contended)
        return
    kind = "granted" if lease._number == 0 else "handed_over"
    now = runtime.now()
    if client.events.wants(kind, now - asked):
        lease._since = now
        client.emit(kind, lease, waited=now - asked, contended=state.contended)


def _plain(
    client: Client, request: LockRequest, state: AcquireState, answer: Answer, sent: float
) -> Hold | None:
    """The hold, where the first answer is a grant like most: in time, and if it was pushed, with
    half of its time left.
    """
    if isinstance(answer, Granted) and state.claim is not None:
        now, pushed = client.runtime.now(), answer.anchor is not None
        hold = Hold(state.claim, request.options, answer, now if pushed else sent, state.line)
        if state.unanswered:
            hold.outcome_unknown = True
        if now < hold.valid_until and not (pushed and _half_used_up(hold, now)):
            state.hold = hold
    return state.hold


def _enter_again(
    client: Client, request: LockRequest, caller: Caller, acquired: list[LeaseCore]
) -> bool:
    """Re-entry costs no round trip and keeps the fence; False if there is nothing to re-enter."""
    lease: LeaseCore | None = caller.get(request.slot)
    if lease is None or request.options.mode is Mode.PERMIT or not lease.held:
        return False  # a semaphore's permits add up instead of nesting
    client = lease._client  # in a forked child not the one that was asked
    if lease.mode is request.options.mode:
        with client.guard:
            lease._count += 1
            acquired.append(lease)
    elif request.options.mode is Mode.EXCLUSIVE:
        message = (
            "this caller holds it for reading and asks to write: it would wait for itself; "
            "release the read first, or take the write lock from the start"
        )
        raise DeadlockDetected(message, key=client.bare(request.key), backend=client.backend.name)
    else:
        _read_inside(client, lease, acquired)
    return True


def _read_inside(client: Client, write: LeaseCore, acquired: list[LeaseCore]) -> None:
    """A writer may read: a lease of its own on the same hold, which may outlive the write."""
    hold = write._hold
    with client.guard:
        inner = write._inner
        if inner is not None:
            inner._count += 1
        else:
            inner = client.lease_type(client, hold, client.runtime.caller(), write._slot)
            inner._number = write._number
            inner._outer = write
            write._inner = inner
        acquired.append(inner)


def join(client: Client, request: LockRequest, state: AcquireState) -> None:
    """Wait in the line of this process. Some ask for themselves instead: see `LockRequest`."""
    state.line = own = Line(request.key)
    if client.lines.setdefault(request.key, own) is not own:  # one step: nobody gets in between
        _wait_behind(client, request, state, own)


def _wait_behind(client: Client, request: LockRequest, state: AcquireState, own: Line) -> None:
    """There is a line already: wait in it, unless it has gone meanwhile.

    Interrupted (Ctrl-C) before it stands there, the caller must not leave it as if it had the turn:
    the two are noted together.
    """
    with client.guard:
        line = client.lines.setdefault(request.key, own)
        if line is not own:
            waiter = line.join(request.options, client.runtime.signal(), state.caller)
            state.line, state.waiter = line, waiter  # no call since it joined


async def _wait_in_line(client: Client, request: LockRequest, state: AcquireState) -> Hold | None:
    """Wait until the hold is handed over to us, or it is our turn to ask."""
    runtime, line, waiter, until = client.runtime, state.line, state.waiter, state.until
    if line is None or waiter is None:
        return None
    if until > runtime.now():
        runtime.begins_to_wait()
        emit_waiting(client, request, state)
    with client.awake(waiter.signal):
        while not waiter.turn and waiter.hold is None and runtime.now() < until:
            client.ensure_open()
            # The ring itself may be lost with an interrupted caller: look again now and then.
            with client.guard:
                first = line.is_first(waiter)
            net = runtime.now() + pacing.line_net(runtime.random(), first=first)
            await waiter.signal.wait(min(until, net))
    if waiter.hold is not None:
        losing.expire_if_due(client, waiter.hold)  # it may have run out before we woke up
        return waiter.hold
    if not waiter.turn:
        if line.unheard:
            message = "the engine has not yet answered an earlier caller of this process"
            raise BackendUnavailable(message)
        return None
    if line.pause_until:
        await _step_back(client, line, until)
    client.ensure_open()  # the turn may have come with the closing
    answer, sent = await _ask(client, request, state)
    return await _win(client, request, state, answer, sent)


async def _step_back(client: Client, line: Line, until: float) -> None:
    """After a cohort, on an engine without a line, others get a chance first (L14)."""
    pause_until, line.pause_until = line.pause_until, 0.0
    if pause_until > client.runtime.now():
        await client.runtime.signal().wait(min(pause_until, until))


async def _win(
    client: Client, request: LockRequest, state: AcquireState, answer: Answer, sent: float
) -> Hold | None:
    """Wait and ask until a grant is worth something: one that came too late is given back.

    The first answer to the claim is known, and when it was asked for.
    """
    runtime = client.runtime
    while state.claim is not None:
        claim = state.claim
        if not isinstance(answer, Granted):
            found = await wait(client, request, claim, state, answer)
            if found is None:
                break
            answer, sent = found
        hold = Hold(claim, request.options, answer, sent, state.line)
        hold.outcome_unknown = state.unanswered > 0
        if answer.anchor is not None and _half_used_up(hold, runtime.now()):
            # Asked for again it has its full ttl (S1). It may have run out meanwhile, and the claim
            # been granted once more, under a larger number: a renewal alone would not show it.
            answer, sent = await _ask(client, request, state)
            continue
        if runtime.now() < hold.valid_until:
            state.hold = hold
            return hold
        await _withdraw_late(client, claim, state)
        if runtime.now() >= state.until:
            break
        answer, sent = await _ask(client, request, state)
    return None


async def _withdraw_late(client: Client, claim: Claim, state: AcquireState) -> None:
    """Give a grant back that came too late. The next one gets a claim of its own."""
    outcome_unknown = state.outcome_unknown
    try:
        state.claim, state.unanswered = None, 0  # nobody may inherit it, nor withdraw it instead
        work = withdraw(client, claim, outcome_unknown=outcome_unknown)
        await client.runtime.finish(work, state.limit, state)
    except BackendUnavailable:
        pass  # the caller left it behind, or the keeper has it
    except BaseException:
        client.keeper.undo(claim, outcome_unknown=True)
        raise


async def _ask(client: Client, request: LockRequest, state: AcquireState) -> tuple[Answer, float]:
    """The first answer to a claim, and when it was asked for: to a new one, or to one that stands
    in the engine's line already, because an asker of this process gave up there.
    """
    if state.line is not None and state.line.left is not None:
        _inherit(client, state.line, state)
    sent = client.runtime.now()
    claim = state.claim
    if claim is None:
        claim = state.claim = client.claim(request, state.caller, waits=state.until > sent)
    state.unanswered += 1
    try:
        patience = client.patience(state.until - sent) if client.waits_on_first_attempt else 0.0
        command = client.backend.attempt(claim, patience)
        answer = await client.runtime.finish(command, state.limit, state)
    except BackendUnavailable as error:
        return await ask_again(client, state, attempt(client, claim), error)
    state.unanswered -= 1
    return answer, sent


def _inherit(client: Client, line: Line, state: AcquireState) -> None:
    """An asker that gave up left its claim, and with it our place in the engine's line."""
    with client.guard:
        if line.left is not None:
            state.inherit(line.left)
            line.left = None


def _half_used_up(hold: Hold, now: float) -> bool:
    return hold.ttl is not None and hold.valid_until - now < hold.ttl / 2


def _lend_handed_over(
    client: Client, request: LockRequest, hold: Hold, caller: Caller, acquired: list[LeaseCore]
) -> LeaseCore | None:
    """Others know this hold already, and may be ending it: None if it is over."""
    with client.guard:
        return None if hold.ending else client.lend(hold, caller, request.slot, acquired)
