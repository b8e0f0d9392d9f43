"""What each exit code of the command line means, and which error ends in which code.

The scheme is flock's: sysexits(3) for our own troubles, the child's own code for everything else.
A busy lock is 75 and not flock's 1, because 1 is also an ordinary failure of the child.
"""

from __future__ import annotations

import enum

from locknut import errors


class Exit(enum.IntEnum):
    """Our own codes; whatever the child exits with is passed through unchanged."""

    OK = 0
    BROKEN = 1
    """A rule of the contract does not hold (`conformance`), a check failed (`doctor`), somebody
    waits in a circle (`deadlocks`), or one server is not enough (`capacity`)."""
    USAGE = 64
    """The command line is wrong (EX_USAGE)."""
    UNAVAILABLE = 69
    """The engine could not be reached; the child was not started (EX_UNAVAILABLE)."""
    INTERNAL = 70
    """A mistake in locknut itself (EX_SOFTWARE)."""
    BUSY = 75
    """Somebody else has the lock, or the wait ran out (EX_TEMPFAIL)."""
    REFUSED = 77
    """The engine or the system said no: credentials, permissions, no room left (EX_NOPERM)."""
    CONFIG = 78
    """A URL, a name or a setting is wrong, or the engine cannot do it (EX_CONFIG)."""
    LOST = 79
    """The lock was lost while the child ran; the child was stopped."""
    MAX_HOLD = 124
    """--max-hold was reached; the child was stopped (as timeout(1))."""
    NOT_EXECUTABLE = 126
    NOT_FOUND = 127


def of_signal(signum: int) -> int:
    """The code of an end by signal, as shells count."""
    return 128 + signum


def of_error(error: errors.LocknutError) -> Exit:
    """The code that this error ends the command with."""
    for kind, code in _CODES:
        if isinstance(error, kind):
            return code
    return Exit.INTERNAL


_CODES = (
    (errors.BackendUnavailable, Exit.UNAVAILABLE),
    (errors.BackendError, Exit.REFUSED),
    (errors.AcquireTimeout, Exit.BUSY),
    (errors.StaleFence, Exit.BUSY),
    (errors.LeaseLost, Exit.LOST),
    (errors.ConfigurationError, Exit.CONFIG),
    (errors.Unsupported, Exit.CONFIG),
    (errors.DeadlockDetected, Exit.CONFIG),
)
