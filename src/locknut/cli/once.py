"""The verb `once`: run the command if this slot of the schedule is still to be run, else skip it.

Everything about the command is as in `run`. What differs is how a start is let in, and what becomes
of the slot when the command has ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from locknut.cli import arguments
from locknut.cli.messages import plain, quoted
from locknut.cli.run import Run
from locknut.errors import LocknutError

if TYPE_CHECKING:
    from locknut import Event, Lease, Locks
    from locknut.blocking.scheduled_run import Once


def main(verb: str, argv: Sequence[str]) -> int:
    """The verb, from its words to its exit code."""
    options = arguments.of_command(verb, argv)
    if options.per is None and options.at is None:
        arguments.parser_of(verb).error("say which slot is meant: --per 15m, or --at TIME")
    return OnceRun(options).perform()


class OnceRun(Run):
    """One `locknut once`."""

    once: Once

    def _acquire(self, locks: Locks) -> Lease | None:
        options = self.options
        self.once = locks.once(
            options.name,
            options.per,
            at=options.at,
            at_least=options.at_least or None,
            retry=options.retry,
            ttl=options.ttl,
        )
        stop = locks.on_event(self._say_skipped)
        try:
            return self.once.acquire()
        finally:
            stop()

    def _say_skipped(self, event: Event) -> None:
        if event.kind == "skipped":
            message = f"skipped {quoted(event.name)}: {plain(event.reason)}"
            self.messenger.say("skipped", message, lock=event.name, reason=event.reason)

    def _environment(self, lease: Lease | None, lost_fd: int) -> dict[str, str]:
        variables = super()._environment(lease, lost_fd)
        scheduled = None if lease is None else self.once.scheduled
        slot = "" if scheduled is None else scheduled.isoformat().replace("+00:00", "Z")
        return {**variables, "LOCKNUT_SLOT": slot}

    def _stay(self, lease: Lease) -> None:
        """The slot stays taken without us: there is nothing to wait for."""

    def _end(self, lease: Lease, code: int) -> bool:
        if code and self.options.retry:
            message = f"the command ended with {code}; this slot may be run again (--retry)"
            self.messenger.say("retry", message, lock=lease.name, code=code)
        release = partial(self.once.release, done=not code)
        if lease.held:
            return self._release(lease, release)
        with suppress(LocknutError):  # the loss has been reported; the slot is still to be settled
            release()
        return False
