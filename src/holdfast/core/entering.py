"""From a call of acquire to a lease: re-entry, the line, the engine, and the way back out.

Whatever interrupts a caller (a timeout, a cancellation, Ctrl-C, an error), `_retreat` undoes just
as much as had been done: nobody is left in a line, no claim in the engine, no turn unpassed.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from holdfast.core import pacing
from holdfast.core.acquiring import Asking, ask
from holdfast.core.holding import Hold, LeaseCore, Mine
from holdfast.core.leaving import end, pass_on, withdraw
from holdfast.core.queueing import Line, Waiter
from holdfast.core.values import Mode, Renewal
from holdfast.errors import DeadlockDetected, HoldfastError

if TYPE_CHECKING:
    from holdfast.core.client import Client, Want


class Turn:
    """How far one caller has got, so that whatever interrupts it can be undone."""

    __slots__ = ("asking", "hold", "line", "waiter")

    def __init__(self) -> None:
        self.line: Line | None = None
        self.waiter: Waiter | None = None
        self.asking: Asking | None = None
        self.hold: Hold | None = None


async def acquire(  # noqa: C901  # one path, to be read from top to bottom
    client: Client, want: Want, until: float, made: list[Any]
) -> LeaseCore | None:
    """A lease, or None at `until`. The lease is put into `made` the moment it exists, so that a
    caller who is interrupted right then can still release it.
    """
    mine = client.runtime.mine()
    lease: LeaseCore | None = None
    if want.slot in mine:
        lease = _enter_again(client, want, mine, made)
        if lease is not None:
            return lease
    client.ensure_open()
    asked = client.runtime.now()
    while lease is None:
        turn = Turn()
        try:
            if want.lined:
                _join(client, want, turn)
            if turn.waiter is None:
                hold = await _win(client, want, until, turn)
            else:
                hold = await _wait_in_line(client, want, turn.waiter, until, turn)
            if hold is None:
                await client.runtime.finish(_retreat(client, want, turn))
                client.tell_want("timed_out", want, waited=client.runtime.now() - asked)
                return None
            lease = _lend(client, want, hold, mine, made)
        except BaseException as error:
            if not made:
                await client.runtime.finish(_retreat(client, want, turn))
            if isinstance(error, HoldfastError):
                error.placed(client.bare(want.key), client.backend.name)
            raise
    kind = "granted" if lease._number == 0 else "handed_over"
    if client.ear.wants(kind):
        lease._since = client.runtime.now()
        client.tell(kind, lease, waited=lease._since - asked)
    return lease


def _enter_again(client: Client, want: Want, mine: Mine, made: list[Any]) -> LeaseCore | None:
    """Re-entry costs no round trip and keeps the fence."""
    lease: LeaseCore | None = mine.get(want.slot)
    if lease is None or want.terms.mode is Mode.PERMIT or not lease.held:
        return None  # a semaphore's permits add up instead of nesting
    if lease.mode is want.terms.mode:
        with client.guard:
            lease._count += 1
            made.append(lease)
    elif want.terms.mode is Mode.EXCLUSIVE:
        message = (
            "this caller holds it for reading and asks to write: it would wait for itself; "
            "release the read first, or take the write lock from the start"
        )
        raise DeadlockDetected(message, key=client.bare(want.key), backend=client.backend.name)
    else:
        lease = _read_inside(client, lease, made)
    return lease


def _read_inside(client: Client, write: LeaseCore, made: list[Any]) -> LeaseCore:
    """A writer may read: a lease of its own on the same hold, which may outlive the write."""
    hold = write._hold
    with client.guard:
        inner = write._inner
        if inner is not None:
            inner._count += 1
        else:
            known = hold.lease
            inner = client.lease_type(client, hold, client.runtime.mine(), write._slot)
            hold.lease = known
            inner._number = write._number
            inner._outer = write
            write._inner = inner
        made.append(inner)
    return inner


def _join(client: Client, want: Want, turn: Turn) -> None:
    """Readers, permits, shared owners and fair locks ask for themselves: a fair lock's order is
    the engine's, and there each waiter needs a place of its own. The rest wait in the line.
    """
    with client.guard:
        turn.line = client.lines.get(want.key)
        if turn.line is None:
            turn.line = client.lines[want.key] = Line(want.key)
        else:
            turn.waiter = turn.line.join(want.terms, client.runtime.signal())


async def _wait_in_line(
    client: Client, want: Want, waiter: Waiter, until: float, turn: Turn
) -> Hold | None:
    """Until the hold is handed over to us, or it is our turn to ask."""
    runtime = client.runtime
    if until > runtime.now():
        client.tell_want("waiting", want)
    with client.awake(waiter.signal):
        while not waiter.turn and waiter.hold is None and runtime.now() < until:
            client.ensure_open()
            # The ring itself may be lost with an interrupted caller: look again now and then.
            await waiter.signal.wait(min(until, runtime.now() + pacing.LINE_NET))
    if waiter.hold is not None:
        client.look(waiter.hold)  # it may have run out before we woke up
        return waiter.hold
    if not waiter.turn:
        return None
    if turn.line is not None and turn.line.pause_until:
        await _step_back(client, turn.line, until)
    return await _win(client, want, until, turn)


async def _step_back(client: Client, line: Line, until: float) -> None:
    """After a cohort, on an engine without a line, others get a chance first (L14)."""
    pause_until, line.pause_until = line.pause_until, 0.0
    if pause_until > client.runtime.now():
        await client.runtime.signal().wait(min(pause_until, until))


async def _win(client: Client, want: Want, until: float, turn: Turn) -> Hold | None:
    """Ask until a grant is worth something: one that came too late is given back."""
    line = turn.line
    while True:
        if line is not None and line.asking is not None:
            turn.asking = _inherited(client, line)
        if turn.asking is None:
            turn.asking = Asking(client.claim(want.key, want.terms))
        found = await ask(client, want, turn.asking, until)
        if found is None:
            return None
        granted, sent = found
        hold = Hold(turn.asking.claim, want.terms, granted, sent, line)
        hold.doubtful = turn.asking.doubtful
        if granted.anchor is not None:
            await _refresh(client, hold)
        if client.runtime.now() < hold.valid_until:
            turn.hold = hold
            with client.guard:
                client.begin(hold)
            return hold
        asking, turn.asking = turn.asking, None
        await client.runtime.finish(withdraw(client, asking))
        if client.runtime.now() >= until:
            return None


def _inherited(client: Client, line: Line) -> Asking | None:
    """An asker that gave up left its claim, and with it our place in the engine's line."""
    with client.guard:
        asking, line.asking = line.asking, None
    return asking


async def _refresh(client: Client, hold: Hold) -> None:
    """A pushed grant that is half used up is renewed before it is given out (S1)."""
    sent = client.runtime.now()
    if hold.ttl is None or hold.valid_until - sent >= hold.ttl / 2:
        return
    hold.valid_until = min(hold.valid_until, sent)  # worth nothing until the answer is there
    (answer,) = await client.runtime.finish(client.backend.renew([hold.claim]))
    if answer is Renewal.HELD:
        hold.confirmed(sent)


def _lend(client: Client, want: Want, hold: Hold, mine: Mine, made: list[Any]) -> LeaseCore | None:
    """Make the lease, from here on the caller's to release; None if the hold is already over."""
    with client.guard:
        if hold.ending:
            return None
        lease: LeaseCore = client.lease_type(client, hold, mine, want.slot)
        made.append(lease)
        client.remember(mine, want.slot, lease)
    return lease


async def _retreat(client: Client, want: Want, turn: Turn) -> None:
    """Leave as if we had never come. Runs to its end even when the caller is cancelled."""
    line, waiter = turn.line, turn.waiter
    with client.guard:
        if waiter is not None and line is not None:
            line.leave(waiter)
            turn.hold = turn.hold or waiter.hold
        hold = turn.hold
        ours = hold is not None and not hold.ending
        if hold is not None:
            client.drop(hold)
        heir = None
        has_turn = hold is None and (waiter is None or waiter.turn)
        if has_turn and line is not None:
            # Who had the turn passes it on, and with it our place in the engine's line.
            turn.asking, line.asking = turn.asking or line.asking, None
            if _inherits(line, want, turn):
                line.asking, turn.asking = turn.asking, None
                heir = client.pass_turn(line)
    if heir is not None:
        heir.signal.notify()
    elif hold is not None:
        if ours:
            with suppress(HoldfastError):  # the caller is told why it leaves, not this
                await end(client, hold)
    else:
        try:
            if turn.asking is not None:
                await withdraw(client, turn.asking)
        finally:
            if has_turn and line is not None:
                pass_on(client, line)


def _inherits(line: Line, want: Want, turn: Turn) -> bool:
    if turn.asking is None or not line.waiters:
        return False
    return next(iter(line.waiters)).terms == want.terms
