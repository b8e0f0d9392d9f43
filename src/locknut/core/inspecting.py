"""Who holds a lock and who waits for it, as the engine sees it; what happened before; and breaking
a hold by force.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from locknut.core import callers, forking, losing, notes, pacing, validation
from locknut.core.values import Broken, Capability, Claim, Event, LockInfo, Mode
from locknut.errors import LocknutError, NotHeld, StaleFence

if TYPE_CHECKING:
    from locknut.core.client import Client
    from locknut.core.history_entries import HistoryEntry
    from locknut.core.ports import Signal

Named = TypeVar("Named", "LockInfo", "HistoryEntry")


async def info(client: Client, name: str) -> LockInfo:
    """Who holds this name and who waits for it, now."""
    client = forking.here(client)
    client.ensure_open()
    found = await client.runtime.finish(client.backend.inspect(client.prefix + name))
    return callers.shown(found[0])._replace(name=name) if found else LockInfo(name)


class Question:
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
    own = Question(until)
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


async def listing(client: Client, pattern: str | None) -> list[LockInfo]:
    """Every name of this namespace that is held or waited for."""
    client = forking.here(client)
    client.ensure_open()
    found = await client.runtime.finish(client.backend.inspect_all(client.prefix))
    ours = [
        callers.shown(each)._replace(name=client.bare(each.name))
        for each in found
        if each.name.startswith(client.prefix)
    ]
    return sorted(_matching(ours, pattern), key=lambda each: each.name)


def _matching(found: list[Named], pattern: str | None) -> list[Named]:
    if pattern is None:
        return found
    from fnmatch import fnmatchcase  # only here: few programs list locks

    return [each for each in found if fnmatchcase(each.name, pattern)]


async def history(client: Client, pattern: str | None, back: float | None) -> list[HistoryEntry]:
    """What was written down of the locks of this namespace, oldest first."""
    from locknut.core import history_entries, recording  # few programs look back

    client = forking.here(client)
    client.ensure_open()
    validation.has(client.backend, Capability.HISTORY)
    written: list[tuple[float, str]] = []
    oldest = float("-inf")
    for stream in recording.STREAMS:
        key = recording.stream_key(client.prefix, stream)
        found = await client.runtime.finish(client.backend.read_history(key, back))
        written += found.texts
        oldest = oldest if back is None else max(oldest, found.now - back)
    entries = [each for each in history_entries.entries(written) if each.time >= oldest]
    return _matching(entries, pattern)


async def force_release(client: Client, name: str, fence: int | None, reason: str = "") -> bool:
    """Break a hold; only if `fence` (where given) is still the one that holds."""
    client = forking.here(client)
    client.ensure_open()
    raw = None if fence is None else fence // client.fence_step
    key, note = client.prefix + name, notes.written(reason, client.label)
    broken = await client.runtime.finish(client.backend.break_hold(key, raw, note))
    if broken is not None:
        why = reason or "force_release"
        event = Event("broken", name, client.backend.name, fence=fence, reason=why)
        if client.events.wants("broken"):
            client.emit_event(event)
        return True
    now = await info(client, name)
    if fence is not None and now.holders and all(each.raw != raw for each in now.holders):
        message = (
            f"not broken: fence {fence} does not hold it any more, fence {now.holders[0].fence} "
            f"does (held by {now.holders[0]}); look again before you break that one"
        )
        raise StaleFence(message, key=name, backend=client.backend.name)
    return False


async def why_broken(client: Client, claim: Claim) -> str:
    """Why a hold is gone that its release did not find; empty if that is not known at once."""
    if not client.backend.passes_notes:
        return ""
    with suppress(LocknutError):
        until = client.runtime.now() + pacing.MOMENT
        (answer,) = await client.runtime.finish(client.backend.renew([claim]), until)
        return losing.broken(answer.note) if isinstance(answer, Broken) else ""
    return ""
