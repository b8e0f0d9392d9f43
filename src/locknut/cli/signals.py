"""Which signals the command line catches, and what they do before and while the child runs.

Before: a terminating signal ends the wait for the lock at once, by an exception out of the wait.
While: signals only queue up in a pipe, and one loop reads them together with everything else, so
that nothing is missed between a look and a sleep.
"""

from __future__ import annotations

import os
import select
import signal
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Self

from locknut.runtimes import clock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

TERMINATING = tuple(
    getattr(signal, name)
    for name in ("SIGHUP", "SIGINT", "SIGQUIT", "SIGALRM", "SIGTERM", "SIGUSR1", "SIGUSR2")
    if hasattr(signal, name)
)
_ENDING = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
"""The terminating ones that mean nothing else; a child may use the others for its own ends."""
_JOB_CONTROL = (signal.SIGTSTP,)
_ALWAYS = (signal.SIGCHLD, signal.SIGCONT)
_BELL = 0
"""In the pipe, a byte is a signal's number; this one is none."""
_ECHO = 1.0
"""Seconds in which more signals are the same wish: make(1) adds a TERM to the terminal's INT."""


_A_DAY = 86400.0
"""poll(2) counts milliseconds in 31 bits; a longer wait wakes up once a day."""


class Interrupted(BaseException):
    """A terminating signal arrived while nothing but waiting was going on."""

    def __init__(self, signum: int):
        super().__init__(signum)
        self.signum = signum


class Signals:
    """Catches signals while the context lasts; what was ignored before (nohup) stays ignored."""

    def __init__(self) -> None:
        self.caught: list[int] = []
        self.first: int | None = None
        """The terminating signal that came first, if any did."""
        self.told_to_end = False
        """Whether anybody wished for the end, before or while the child ran."""
        self._before: dict[int, object] = {}
        self._interrupting = False
        self._deaf_until = 0.0
        self._queue: list[int] = []
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)
        self._poll = select.poll()
        self._poll.register(self._read, select.POLLIN)

    def __enter__(self) -> Self:
        self._wakeup_before = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        self._catch(*TERMINATING)
        return self

    def __exit__(self, *_: object) -> None:
        for signum, before in self._before.items():
            signal.signal(signum, before)  # type: ignore[arg-type]  # what signal() gave us
        signal.set_wakeup_fd(self._wakeup_before)
        write, self._write = self._write, -1  # a late ring must not reach somebody else's file
        os.close(self._read)
        os.close(write)

    def attend_child(self) -> None:
        """From now on also hear of stops, of going on, and of children that end."""
        self._catch(*_JOB_CONTROL)
        self._catch(*_ALWAYS, even_ignored=True)

    @contextmanager
    def interrupting(self) -> Iterator[None]:
        """Within: a terminating signal raises Interrupted, also one that came before."""
        self._interrupting = True
        try:
            self.check()
            yield
        finally:
            self._interrupting = False
        self.check()

    def check(self) -> None:
        if self.first is not None:
            raise Interrupted(self.first)

    def ring(self) -> None:
        """End a wait. From any thread."""
        with suppress(OSError):  # full: then it rings already
            os.write(self._write, bytes([_BELL]))

    def wait(self, patience: float) -> list[int]:
        """Wait for signals (given back in order) or a ring, for at most `patience` seconds.

        It may also return early, with nothing.
        """
        if not self._queue:
            self._poll.poll(max(0.0, min(patience, _A_DAY)) * 1000)
            self._drain()
        came, self._queue = self._queue, []
        return came

    def stop_here(self) -> bool:
        """Stop as the terminal's stop key does, until SIGCONT; False if we were not stopped.

        By the default action, not by SIGSTOP: the kernel refuses it where no shell could ever
        continue us. What queued up about stopping and going on is done with afterwards.
        """
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        signal.raise_signal(signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, self._note)
        self._drain()
        continued = signal.SIGCONT in self._queue
        done_with = (signal.SIGTSTP, signal.SIGCONT)
        self._queue = [signum for signum in self._queue if signum not in done_with]
        return continued

    def _drain(self) -> None:
        with suppress(BlockingIOError):
            while data := os.read(self._read, 4096):
                self._queue += [byte for byte in data if byte != _BELL]

    def _catch(self, *signums: int, even_ignored: bool = False) -> None:
        for signum in signums:
            if even_ignored or signal.getsignal(signum) is not signal.SIG_IGN:
                self._before[signum] = signal.signal(signum, self._note)
                self.caught.append(signum)

    def _note(self, signum: int, _frame: FrameType | None) -> None:
        if signum not in TERMINATING:
            return
        self.told_to_end = self.told_to_end or signum in _ENDING
        if self.first is None:
            self.first = signum
        now = clock.now()
        if self._interrupting and now >= self._deaf_until:
            # The way out of the wait withdraws from the line, and should not be cut short itself.
            self._deaf_until = now + _ECHO
            raise Interrupted(signum)
