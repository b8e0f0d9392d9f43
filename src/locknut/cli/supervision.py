"""While the child runs: pass signals on, and stop it before the lock is somebody else's.

The loss protocol: the hold is sure to last until a moment on our own clock, moved on by each
renewal. When only `grace` is left of it the child gets SIGTERM, and at that moment it is
killed, whatever the network does; at once, if we were stopped and wake up too late. Where a hold
is taken away all at once (broken by force) the grace comes after the fact. Nothing here waits for
the engine.
"""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, NamedTuple

from locknut import State
from locknut.cli.exit_codes import Exit
from locknut.cli.messages import plain, quoted, span
from locknut.cli.option_table import NEVER
from locknut.cli.signals import TERMINATING
from locknut.runtimes import clock

if TYPE_CHECKING:
    from locknut import Lease
    from locknut.cli.child import Child
    from locknut.cli.messages import Messenger
    from locknut.cli.option_values import OnLost
    from locknut.cli.signals import Signals

_BEAT = 1.0
"""Look at the hold at least this often: a sleep stops while the machine is suspended, a ttl not."""
_AGAIN = 0.05
"""Between two looks at, or kills of, a group that may change without a word to us."""
_LEFT_BEHIND = 2.0
"""After this long it is worth a line that the command ended and its group did not."""
_FROM_TERMINAL = (signal.SIGINT, signal.SIGQUIT)

_WHY = {
    "broken": "it was broken by force",
    "taken": "it was broken by force, or the engine forgot it",
    "session": "the session with the engine ended",
}


class Rules(NamedTuple):
    """What the user asked for."""

    on_lost: OnLost
    grace: float
    max_hold: float


class Supervisor:
    """Watches one child, its hold and the signals, until the child is gone."""

    def __init__(
        self,
        child: Child,
        lease: Lease | None,
        signals: Signals,
        messenger: Messenger,
        rules: Rules,
    ):
        self.ending: Exit | None = None
        """Why the child was stopped, if it was."""
        self.lost = False
        self._child = child
        self._lease = lease
        self._signals = signals
        self._messenger = messenger
        self._rules = rules
        self._kill_at = NEVER
        self._stop_at = clock.now() + rules.max_hold
        self._left_behind_at: float | None = None
        self._on_lost_pipe: int | None = None

    def close_on_loss(self, descriptor: int) -> None:
        """Take the write end of the pipe whose end of file means the loss to the child."""
        self._on_lost_pipe = descriptor

    def close(self) -> None:
        """Close it in any case: `lead --restart` has many terms in one process."""
        if self._on_lost_pipe is not None:
            os.close(self._on_lost_pipe)
            self._on_lost_pipe = None

    def watch(self) -> int:
        """Until the child is gone; the exit code that follows."""
        self._messenger.hurried = True
        while not self._child.gone():
            if self._child.stopped:
                self._follow_stop()
            self._judge()
            for signum in self._signals.wait(self._patience()):
                self._heed(signum)
        self._messenger.hurried = False
        if self._lease is not None and self._lease.state is State.LOST and not self.lost:
            self._lose(clock.now())
        return self._code()

    def _code(self) -> int:
        if self.ending is not None:
            return self.ending
        return Exit.INTERNAL if self._child.code is None else self._child.code

    def _judge(self) -> None:
        """Act on what the clock says."""
        now = clock.now()
        if not self.lost and self._slipping():
            self._lose(now)
        if self.ending is None and now >= self._stop_at:
            self._overdue(now)
        if now >= self._kill_at:
            self._child.send(signal.SIGKILL)
            self._kill_at = now + _AGAIN
        self._mention_left_behind(now)

    def _slipping(self) -> bool:
        lease = self._lease
        if lease is None:
            return False
        return lease.state is State.LOST or lease.remaining <= self._head_start()

    def _head_start(self) -> float:
        """How long before the end of the hold the child gets its signal."""
        needs_time = self._rules.on_lost.signum not in (0, signal.SIGKILL)
        return self._rules.grace if needs_time else 0.0

    def _lose(self, now: float) -> None:
        self.lost = True
        on_lost, last = self._rules.on_lost, now + self._time_to_go()
        self.close()
        message = self._loss(last - now)
        if on_lost.stops:
            self.ending = Exit.LOST
            # Too late for a polite word: one that is stopped would run on before it is killed.
            self._stop(on_lost.signum if last > now else signal.SIGKILL, last)
        elif on_lost.signum:
            self._child.send(on_lost.signum)
        self._tell_loss(message)  # last: nothing comes before the signal

    def _time_to_go(self) -> float:
        taken_away = self._lease is not None and self._kind() in _WHY
        return self._rules.grace if taken_away else self._left()

    def _left(self) -> float:
        lease = self._lease
        return 0.0 if lease is None or lease.state is State.LOST else lease.remaining

    def _overdue(self, now: float) -> None:
        limit, grace = span(self._rules.max_hold), span(self._rules.grace)
        pid = self._child.pid
        message = f"--max-hold {limit} is over; stopping pid {pid} (SIGTERM, SIGKILL in {grace})"
        self.ending = Exit.MAX_HOLD
        self._stop(signal.SIGTERM, now + self._rules.grace)
        self._messenger.error("max_hold", message, pid=pid)

    def _stop(self, signum: int, last: float) -> None:
        self._kill_at = min(self._kill_at, last)
        self._child.send(signum)
        if signum != signal.SIGKILL:
            self._child.send(signal.SIGCONT)  # or a stopped one would never hear it

    def _heed(self, signum: int) -> None:
        if signum == signal.SIGTSTP:
            self._pause()
        elif signum == signal.SIGCONT:
            self._judge()
            self._child.send(signal.SIGCONT)
        elif signum in TERMINATING and not self._delivered_by_terminal(signum):
            self._child.send(signum)

    def _delivered_by_terminal(self, signum: int) -> bool:
        """As system(3): the keyboard's signals reach the whole foreground group without us."""
        return self._child.on_terminal and signum in _FROM_TERMINAL

    def _pause(self) -> None:
        """Stopped together, continued together; the hold is looked at before the child goes on."""
        # A session without a terminal is not stopped by SIGTSTP, only by SIGSTOP.
        if not self._child.on_terminal:
            self._child.send(signal.SIGSTOP)
        continued = self._signals.stop_here()
        self._judge()
        if continued or not self._child.on_terminal:
            self._child.send(signal.SIGCONT)

    def _follow_stop(self) -> None:
        """A child that stops itself on a terminal would leave its user without a prompt."""
        self._child.stopped = False
        if self._child.on_terminal:
            self._pause()

    def _patience(self) -> float:
        now = clock.now()
        moments = [self._kill_at, self._left_behind_at or NEVER]
        if self.ending is None:
            moments.append(self._stop_at)
        left = min(moments) - now
        if self._child.unheard:
            left = min(left, _AGAIN)
        if self._lease is not None and not self.lost and self._lease.remaining < NEVER:
            left = min(left, _BEAT, self._lease.remaining - self._head_start())
        return max(0.0, left)

    def _mention_left_behind(self, now: float) -> None:
        if self._child.code is None:
            return
        if self._left_behind_at is None:
            self._left_behind_at = now + _LEFT_BEHIND
        elif now >= self._left_behind_at:
            self._left_behind_at = NEVER
            self._say_left_behind()

    def _say_left_behind(self) -> None:
        message = (
            f"the command has ended but left processes in its group {self._child.group}; the lock "
            "is kept until they end (start a daemon with setsid if it should not count)"
        )
        self._messenger.say("left_behind", message, group=self._child.group)

    def _loss(self, time_left: float) -> str:
        lease = self._lease
        if lease is None:
            return ""
        verb = "lost" if lease.state is State.LOST else "losing"
        what = f"{verb} {quoted(lease.name)} (fence {lease.fence})"
        return f"{what}: {self._why()}; {self._consequence(time_left)}"

    def _tell_loss(self, message: str) -> None:
        lease = self._lease
        if lease is None:
            return
        facts = {"lock": lease.name, "fence": lease.fence, "reason": lease.reason or "not_renewed"}
        self._messenger.error("lost", message, pid=self._child.pid, **facts)

    def _kind(self) -> str:
        """What the reason of the loss begins with: the word for it, before a note of who did it."""
        return "" if self._lease is None else self._lease.reason.partition(": ")[0]

    def _why(self) -> str:
        lease, kind = self._lease, self._kind()
        if lease is None or kind not in _WHY:
            return f"no renewal was confirmed, {span(self._left())} left"
        note = lease.reason.partition(": ")[2]
        return f"{_WHY[kind]}: {plain(note)}" if note else _WHY[kind]

    def _consequence(self, time_left: float) -> str:
        on_lost, pid = self._rules.on_lost, self._child.pid
        if self._child.code is not None and self._child.gone():
            return "the command has ended, but somebody else may have run at the same time"
        now = "" if self._left() > 0 else "somebody else may have the lock now; "
        if not on_lost.signum:
            return f"{now}pid {pid} goes on without the lock (--on-lost warn)"
        first = signal.Signals(on_lost.signum).name
        if not on_lost.stops:
            return f"{now}pid {pid} is sent {first} and goes on without the lock"
        if on_lost.signum == signal.SIGKILL or time_left <= 0:
            return f"{now}stopping pid {pid} (SIGKILL)"
        return f"{now}stopping pid {pid} ({first}, SIGKILL in {span(time_left)})"
