"""Taking the lock for `run`: which kind of lock is meant, and what is said about who has it."""

from __future__ import annotations

import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from locknut.cli.ls import facts_of
from locknut.cli.messages import age, command, moment, plain, quoted, span, who
from locknut.cli.option_table import NEVER
from locknut.errors import BackendError
from locknut.runtimes import cpython

if TYPE_CHECKING:
    from collections.abc import Iterator

    from locknut import Lease, LockInfo, Locks
    from locknut.cli.arguments import Options
    from locknut.cli.messages import Messenger

_SOON = 2.0
"""A wait longer than this is worth a line to somebody who watches."""


def acquire(locks: Locks, options: Options, messenger: Messenger) -> Lease | None:
    """Return the lease, or None after a message that says who has the lock."""
    lock = _lock(locks, options)
    lease: Lease | None = None
    if options.wait == 0 or messenger.verbose:
        lease = lock.acquire(blocking=False)
    if lease is None and options.wait > 0:
        with _told_soon(locks, options, messenger):
            lease = lock.acquire(timeout=None if options.wait == NEVER else options.wait)
    if lease is None:
        _say_busy(_look(locks, options.name), locks.place, options, messenger)
    return lease


def _look(locks: Locks, name: str) -> LockInfo | None:
    """Who has it; None if the engine cannot tell: that it is busy is known all the same."""
    with suppress(BackendError):
        return locks.info(name)
    return None


def _lock(locks: Locks, options: Options) -> Any:
    if options.slots is not None:
        return locks.semaphore(options.name, options.slots, ttl=options.ttl, fair=options.fair)
    if options.shared:
        return locks.rwlock(options.name, ttl=options.ttl).read()
    return locks.lock(options.name, ttl=options.ttl, fair=options.fair)


@contextmanager
def _told_soon(locks: Locks, options: Options, messenger: Messenger) -> Iterator[None]:
    """Within: say who is waited for, if somebody is likely to read it: with -v at once, on a
    terminal after a while.
    """
    if messenger.verbose:
        _say_waiting(locks, options, messenger)
    if messenger.verbose or not messenger.chatty:
        yield
        return
    over = threading.Event()

    def tell() -> None:
        if not over.wait(_SOON):
            _say_waiting(locks, options, messenger)

    # Not waited for: a signal in that wait may come out as a RuntimeError.
    cpython.UnawaitedThread(target=tell, daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _say_waiting(locks: Locks, options: Options, messenger: Messenger) -> None:
    info = _look(locks, options.name)
    if info is not None:
        messenger.say("held", describe(info, locks.place), **facts_of(info, locks.place))
    limit = "" if options.wait == NEVER else f" up to {span(options.wait)}"
    messenger.say("waiting", f"waiting for the lock{limit} ...", lock=options.name)


def _say_busy(info: LockInfo | None, place: str, options: Options, messenger: Messenger) -> None:
    """Who has it, and what to do about it."""
    if info is None:
        message = f"{quoted(options.name)} is held, but the engine does not say by whom"
        messenger.say("busy", message, lock=options.name)
        return
    messenger.say("busy", describe(info, place), **facts_of(info, place))
    if fence := next((holder.fence for holder in info.holders), None):
        from locknut.cli import break_hint  # only for this message

        command, note = break_hint.break_command(info.name, fence, options)
        messenger.say("hint", f"to force it open{note}: {command}", command=command)


def describe(info: LockInfo, place: str) -> str:
    """Who holds it: "x" is held by me@web-3:4121 (make all) since 02:14:07 (6m12s), fence 8841."""
    name = quoted(info.name)
    if not info.holders:
        return f"{name} in {plain(place)} was held until a moment ago"
    first, *others = info.holders
    text = f"{name} is held by {who(first)}"
    if title := command(first):
        text += f" ({title})"
    if others:
        text += f" and {len(others)} more"
    if first.since is not None:
        text += f" since {moment(first.since)} ({age(first.since)})"
    details = {
        "fence {}": first.fence,
        "ttl {}": None if first.ttl_left is None else span(first.ttl_left),
        "{} waiting": len(info.waiters) or None,
        "in {}": plain(place),
    }
    known = [words.format(value) for words, value in details.items() if value is not None]
    return ", ".join([text, *known])
