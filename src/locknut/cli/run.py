"""The verb `run`: take the lock, run the command under it, release the lock, pass the code on.

This file decides what happens in each case (busy, interrupted, no engine, lost, done); how a
process is handled is in `child` and `supervision`.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

from locknut import Capability
from locknut.cli import ancestors, arguments, child, run_lock, target, titles
from locknut.cli.exit_codes import Exit, of_signal
from locknut.cli.messages import Messenger, plain, quoted, span
from locknut.cli.option_table import NEVER
from locknut.cli.signals import Interrupted, Signals
from locknut.cli.supervision import Rules, Supervisor
from locknut.errors import BackendError, ConfigurationError, LeaseLost
from locknut.runtimes import clock

if TYPE_CHECKING:
    from locknut import Lease, Locks
    from locknut.cli.arguments import Options

_GRACE = 5.0


def main(verb: str, argv: Sequence[str]) -> int:
    """The verb, from its words to its exit code."""
    return Run(arguments.of_command(verb, argv)).perform()


class Run:
    """One `locknut run`, from the wait for the lock to the exit code."""

    def __init__(self, options: Options):
        self.options = options
        self.label = options.owner or target.user()
        self.messenger = Messenger(
            quiet=options.quiet, verbose=options.verbose, as_json=options.json
        )
        self.signals = Signals()
        self._at_end = ExitStack()
        self.locks: Locks | None = None
        self.lease: Lease | None = None
        self.since = clock.now()

    def perform(self) -> int:
        with self.signals, self._at_end as stack:
            try:
                return self._perform(stack)
            except Interrupted as interruption:
                return of_signal(interruption.signum)

    def _perform(self, stack: ExitStack) -> int:
        try:
            self._take(stack)
        except (BackendError, OSError) as error:
            if self.options.on_backend_error == "fail":
                raise
            return self._without_engine(error)
        if self.lease is None:
            return self.options.conflict_exit_code
        return self._under_lock(self.lease)

    def _take(self, stack: ExitStack) -> None:
        """Connect and acquire, both given up at once when a terminating signal comes."""
        options = self.options
        with self.signals.interrupting():
            require = tuple(options.require)
            label = titles.label(self.label, self._title())
            self.locks = target.locks(options, label=label, require=require)
            stack.callback(self._close, self.locks)
            ancestors.refuse_reentry(
                self.locks, options.name, os.environ.get(ancestors.VARIABLE, "")
            )
            self.lease = self._acquire(self.locks)
        self.since = clock.now()

    def _acquire(self, locks: Locks) -> Lease | None:
        """Return the lease, or None after a message that says why the command is not run."""
        return run_lock.acquire(locks, self.options, self.messenger)

    def _title(self) -> str:
        if self.options.title:
            return titles.of_text(self.options.title)
        shell = self.options.shell
        return titles.of_command(self.options.command if shell is None else [shell])

    def _close(self, locks: Locks) -> None:
        with suppress(BackendError):  # what cannot be given back any more, the ttl frees
            locks.close()

    def _without_engine(self, error: BackendError | OSError) -> int:
        if self.options.on_backend_error == "skip":
            self.messenger.error("skipped", f"{error}; the command was not run (skip)")
            return Exit.OK
        self.messenger.error("unprotected", f"{error}; running the command WITHOUT the lock")
        self.locks = self.lease = None
        return self._run_child(None)

    def _under_lock(self, lease: Lease) -> int:
        name, fence = quoted(lease.name), lease.fence
        facts = {"lock": lease.name, "fence": fence}
        place = "" if self.locks is None else self.locks.place
        message = f"acquired {name} in {plain(place)}, fence {fence}"
        self.messenger.detail("acquired", message, **facts, place=place)
        code: int = Exit.INTERNAL
        try:
            code = self._run_child(lease)
            self._stay(lease)
        finally:
            lost = self._end(lease, code)
        held = span(clock.now() - self.since)
        self.messenger.detail("released", f"done with {name} after {held}", **facts)
        return Exit.LOST if lost and self.options.on_lost.stops else code

    def _run_child(self, lease: Lease | None) -> int:
        """Start the command and stay with it until it and its group are gone."""
        if lease is not None:
            lease.check()  # we may have been stopped, or held up by the reader of our messages
        rules = self._rules(lease)
        lost_fd, held_fd = os.pipe()  # the child sees the end of file when the lock is lost
        on_terminal = os.isatty(0)
        self.signals.attend_child()
        start = child.Start(
            command=self.options.command,
            environment=self._environment(lease, lost_fd),
            on_terminal=on_terminal,
            death_signal=self.options.on_lost.death_signal,
            inherit=() if lease is None else (lost_fd,),
            reset=self.signals.caught,
        )
        try:
            started = child.spawn(start)
        except child.CannotStart as error:
            os.close(held_fd)
            self.messenger.error("cannot_start", f"cannot run {self.options.command[0]!r}: {error}")
            return Exit.NOT_EXECUTABLE if error.found else Exit.NOT_FOUND
        finally:
            os.close(lost_fd)
        supervisor = Supervisor(started, lease, self.signals, self.messenger, rules)
        supervisor.close_on_loss(held_fd)
        self._at_end.callback(supervisor.close)
        if lease is not None:
            lease.on_lost(lambda _lease: self.signals.ring())
        try:
            return supervisor.watch()
        except BaseException:
            started.send(signal.SIGKILL)  # never leave it running without anybody watching
            raise

    def _rules(self, lease: Lease | None) -> Rules:
        """The grace fits into a third of the ttl: two renewals can fail before it starts."""
        room = NEVER if lease is None else lease.remaining / 3
        asked = self.options.grace
        if asked is not None and asked >= room:
            fits = f"this engine's ttl leaves {span(room)}"
            raise ConfigurationError(f"--grace {span(asked)} is too long: {fits}")
        grace = min(_GRACE, room) if asked is None else asked
        return Rules(self.options.on_lost, grace, self.options.max_hold)

    def _environment(self, lease: Lease | None, lost_fd: int) -> dict[str, str]:
        """The variables of the child; never the URL, which may hold a password."""
        variables = {
            "LOCKNUT_LOCK": self.options.name,
            "LOCKNUT_OWNER": target.identity(self.label),
        }
        known = ("LOCK_NAMESPACE", "FENCE", "TTL", "BACKEND", "LOST_FD")
        variables |= dict.fromkeys((f"LOCKNUT_{each}" for each in known), "")
        if lease is not None and self.locks is not None:
            held = os.environ.get(ancestors.VARIABLE, "")
            variables |= {
                "LOCKNUT_LOCK_NAMESPACE": self.locks.namespace,
                "LOCKNUT_FENCE": str(lease.fence) if self._has_fences() else "",
                "LOCKNUT_TTL": "" if lease.remaining == NEVER else f"{self._ttl(lease):g}",
                "LOCKNUT_BACKEND": self.locks.backend,
                "LOCKNUT_LOST_FD": str(lost_fd),
                ancestors.VARIABLE: ancestors.with_entry(held, self.options.name, lease.fence),
            }
        return {**target.environment(), **variables}

    def _has_fences(self) -> bool:
        return self.locks is not None and Capability.FENCING in self.locks.capabilities

    def _ttl(self, lease: Lease) -> float:
        return self.options.ttl if self.options.ttl is not None else round(lease.remaining)

    def _stay(self, lease: Lease) -> None:
        """--at-least: a fast command keeps the lock a while; a signal or a loss ends that."""
        until = self.since + self.options.at_least
        while lease.held and not self.signals.told_to_end and (left := until - clock.now()) > 0:
            self.signals.wait(left)

    def _end(self, lease: Lease, code: int) -> bool:  # noqa: ARG002  # others ask for the code
        """The command has ended with this code; True if we learn now that the lock was lost."""
        return lease.held and self._release(lease, lease.release)  # else it has been reported

    def _release(self, lease: Lease, release: Callable[[], None]) -> bool:
        """Give the lock back; True if it turns out that it was lost before."""
        try:
            release()
        except LeaseLost as error:
            self.messenger.error("lost", str(error), lock=lease.name, fence=lease.fence)
            return True
        except BackendError as error:
            self.messenger.error("not_released", f"{error}; the lock is free when its ttl is over")
        return False
