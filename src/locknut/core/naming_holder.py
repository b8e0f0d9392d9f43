"""Who holds a lock, for the error of a caller that did not get it or does not hold it.

It must not cost that caller much: one of them asks for all, and the engine has a moment to answer.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from locknut.core import callers, forking, pacing
from locknut.core.values import LockInfo, Mode
from locknut.errors import LocknutError, NotHeld

if TYPE_CHECKING:
    from locknut.core.client import Client
    from locknut.core.ports import Signal


class HolderQuestion:
    """Who holds a key: asked by one caller for all that want to know at the same time."""

    __slots__ = ("found", "signals", "until")

    def __init__(self, until: float) -> None:
        self.until = until
        """From then on it counts no more: its asker may have been interrupted (Ctrl-C)."""
        self.found: LockInfo | None = None
        self.signals: list[Signal] = []


async def holder(client: Client, name: str) -> LockInfo | None:
    """Who holds it, for a caller that did not get it; None if that is not known at once.

    Many callers may give up in the same moment: only one of them asks, and only for the holders.
    """
    client = forking.here(client)
    runtime, key = client.runtime, client.prefix + name
    now, signal = runtime.now(), runtime.signal()
    until = now + pacing.MOMENT
    own = HolderQuestion(until)
    with client.guard:
        question = client.questions.get(key)
        if question is None or question.until <= now:
            question = client.questions[key] = own
        else:
            question.signals.append(signal)
    if question is not own:
        await signal.wait(question.until)
        return question.found
    try:
        with suppress(LocknutError):
            found = await runtime.finish(client.backend.inspect_holders(key), until)
            own.found = callers.shown(found[0])._replace(name=name) if found else None
    finally:
        with client.guard:
            if client.questions.get(key) is own:
                del client.questions[key]
        for each in own.signals:
            each.notify()
    return own.found


async def not_held(client: Client, name: str, mode: Mode) -> NotHeld:
    """The error of a caller that releases what it does not hold: it names the holder.

    What this process knows costs nothing; otherwise the engine has a moment to answer, so that a
    server that hangs holds nobody up.
    """
    client = forking.here(client)
    who = client.held_here(client.prefix + name, mode)
    found = f"{who} of this process" if who else ""
    if not who and not client.nested() and not client.closed:
        info = await holder(client, name)
        found = str(info.holders[0]) if info is not None and info.holders else ""
    message = "this thread or task does not hold it, so it cannot be released here"
    advice = f"held by {found}" if found else client.how_to_see(name)
    return NotHeld(f"{message}; {advice}", key=name, backend=client.backend.name)
