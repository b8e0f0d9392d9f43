"""The command that runs under the lock: how it is started, signalled, and known to be gone.

On a terminal it stays in the terminal's foreground group, so that the keyboard reaches it; without
one it leads a session of its own. Either way "the child" is the command and every process it
started that stayed in its process group: they are signalled together, and the lock is kept until
the last of them has ended. A process that leaves the group (setsid, a daemon) no longer counts.
"""

from __future__ import annotations

import errno
import os
import signal
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from locknut.cli import linux


class Start(NamedTuple):
    """What to run, and how it hangs on us."""

    command: list[str]
    environment: Mapping[str, str]
    on_terminal: bool
    death_signal: int
    """What the command is sent if this process dies; 0: nothing."""
    inherit: Sequence[int] = ()
    """Descriptors that the command gets besides those that are inheritable anyway."""
    reset: Sequence[int] = ()
    """Signals that this process catches; the command starts with their default action."""


class CannotStart(Exception):
    """The command could not be executed."""

    def __init__(self, error: int):
        super().__init__(os.strerror(error))
        self.found = error not in (errno.ENOENT, errno.ENOTDIR)


class Child:
    """A started command and its process group."""

    def __init__(self, pid: int, *, on_terminal: bool, adopting: bool):
        self.pid = pid
        self.on_terminal = on_terminal
        self.group = os.getpgrp() if on_terminal else pid
        self.code: int | None = None
        """The command's exit code once it ended (128 + N by signal N); its group may live on."""
        self.stopped = False
        """The command was stopped; the supervisor sets it back once it has acted on that."""
        self._adopting = adopting
        self._gone = False

    def gone(self) -> bool:
        """Reap the processes that ended; True when the command and all of its group have."""
        if not self._gone:
            self._reap(-1)
            left = self._reap(-self.group) or self._group_exists()
            self._gone = self.code is not None and not left
        return self._gone

    @property
    def unheard(self) -> bool:
        """Whether the rest of the group may end without a word to us."""
        return self.code is not None and not self._adopting

    def send(self, signum: int) -> None:
        """Signal the whole group; without effect when it is gone or runs as somebody else."""
        if self._gone:
            return
        if self.on_terminal:
            alone = [self.pid] if self.code is None else []
            for pid in linux.descendants(self.group) or alone:
                _send(os.kill, pid, signum)
        else:
            # Never a stranger's: our own unreaped children keep the number from being given again.
            _send(os.killpg, self.group, signum)

    def _reap(self, which: int) -> bool:
        """Reap those of `which` (as waitpid counts) that ended; True while some of them live."""
        with suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(which, os.WNOHANG | os.WUNTRACED)
                if pid == 0:
                    return True
                if pid == self.pid:
                    self._note(status)
        return False

    def _note(self, status: int) -> None:
        if os.WIFSTOPPED(status):
            self.stopped = True
            return
        code = os.waitstatus_to_exitcode(status)
        self.code = code if code >= 0 else 128 - code

    def _group_exists(self) -> bool:
        # Where orphans are not given to us we cannot wait for them, only look for them.
        if self._adopting or self.on_terminal:
            return False
        with suppress(ProcessLookupError):
            os.killpg(self.group, 0)
            return True
        return False


def _send(how: Callable[[int, int], None], whom: int, signum: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        how(whom, signum)


def spawn(start: Start) -> Child:
    """Start the command, from the main thread: the death signal hangs on the thread that forks."""
    prctl = linux.prctl()
    adopting = linux.adopt_orphans(prctl)
    report, tell = os.pipe()
    # Until the child has put the handlers back, a signal would run ours in it.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        parent = os.getpid()
        pid = _fork()
        if pid == 0:
            _become(start, prctl, parent, mask, tell)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    os.close(tell)
    _hear_of_start(report, pid)
    return Child(pid, on_terminal=start.on_terminal, adopting=adopting)


def _fork() -> int:
    with warnings.catch_warnings():
        # Python warns of forks beside threads: what the child does here is the little that is safe.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _hear_of_start(report: int, pid: int) -> None:
    """The pipe closes when the command is executed; before that only a failure is written to it."""
    with os.fdopen(report, "rb") as pipe:
        failure = pipe.read()
    if failure:
        os.waitpid(pid, 0)
        raise CannotStart(int(failure))


def _become(
    start: Start, prctl: linux.Prctl, parent: int, mask: set[int | signal.Signals], tell: int
) -> None:
    """In the forked child: turn into the command. Never returns, and imports nothing (threads)."""
    try:
        if not start.on_terminal:
            os.setsid()
        if start.death_signal:
            linux.die_with_parent(prctl, start.death_signal, parent)
        signal.set_wakeup_fd(-1)
        for signum in (*start.reset, signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores the last two
            signal.signal(signum, signal.SIG_DFL)
        for descriptor in start.inherit:
            os.set_inheritable(descriptor, True)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        _execute(start.command, start.environment)
    except OSError as error:
        os.write(tell, str(error.errno).encode())
    except ValueError:  # what no program can be given: an empty name of a program, say
        os.write(tell, str(errno.EINVAL).encode())
    finally:
        os._exit(127)


def _execute(command: list[str], environment: Mapping[str, str]) -> None:
    """As execvp(3): look along the PATH, and give a script without "#!" to the shell.

    Python's own execvpe goes on along the PATH after such a script, and may run another program.
    """
    failure: OSError = FileNotFoundError(errno.ENOENT, command[0])
    if not command[0]:
        raise failure
    for program in _places(command[0], environment):
        try:
            os.execve(program, command, environment)  # noqa: S606  # no shell: that is the point
        except (FileNotFoundError, NotADirectoryError):
            continue
        except PermissionError as error:
            failure = error
        except OSError as error:
            if error.errno != errno.ENOEXEC:
                raise
            os.execve("/bin/sh", ["/bin/sh", program, *command[1:]], environment)  # noqa: S606  # as above
    raise failure


def _places(program: str, environment: Mapping[str, str]) -> list[str]:
    if "/" in program:
        return [program]
    return [f"{place or '.'}/{program}" for place in os.get_exec_path(environment)]
