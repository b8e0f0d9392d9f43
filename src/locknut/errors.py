"""Every exception Locknut raises.

    LocknutError
    ├── AcquireTimeout       (also TimeoutError)    the timeout expired, somebody else has it
    ├── LeaseLost                                   the hold is no longer ours
    ├── NotHeld              (also RuntimeError)    using what this caller does not hold
    ├── StaleFence                                  a guard refused a step with an old fence
    ├── Unsupported                                 this engine cannot do that
    ├── DeadlockDetected     (also RuntimeError)    the caller would wait for itself, or in a circle
    ├── BrokenBarrier        (also RuntimeError)    not all came: nobody of this round passes
    ├── ConfigurationError   (also ValueError)      an argument, a URL or an option is wrong
    └── BackendError                                the engine answered with an error
        └── BackendUnavailable (also ConnectionError)   the engine could not be reached

Each carries `key` (the lock's name) and `backend` (the engine's name), and pickles.

Locknut warns of one thing: `BlockingInLoopWarning`, a RuntimeWarning.
"""

from __future__ import annotations

from typing import Any, Self


class LocknutError(Exception):
    """The root of everything Locknut raises."""

    def __init__(self, message: str = "", *, key: str | None = None, backend: str | None = None):
        super().__init__(message)
        self.message = message
        self.key = key
        self.backend = backend

    def __str__(self) -> str:
        where = [part for part in (self._quoted_key(), self._on_backend()) if part]
        return f"{self.message} [{' '.join(where)}]" if where else self.message

    def _quoted_key(self) -> str:
        return "" if self.key is None else f"lock {self.key!r}"

    def _on_backend(self) -> str:
        return "" if self.backend is None else f"on {self.backend}"

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.message, self.__dict__)

    def placed(self, key: str | None, backend: str | None) -> Self:
        """Fill in which lock and engine the error is about (what is known is kept)."""
        self.key = self.key if self.key is not None else key
        self.backend = self.backend if self.backend is not None else backend
        return self


def _rebuild(kind: type[LocknutError], message: str, attributes: dict[str, object]) -> LocknutError:
    error = kind(message)
    error.__dict__.update(attributes)
    return error


class AcquireTimeout(LocknutError, TimeoutError):
    """The timeout expired before the lock was granted; the body was not run."""


class LeaseLost(LocknutError):
    """The hold ended before it was released; somebody else may have the lock now."""


class NotHeld(LocknutError, RuntimeError):
    """This thread, task or lease does not hold the lock."""


class StaleFence(LocknutError):
    """A guard refused a step because a newer fence has entered the resource."""


class Unsupported(LocknutError):
    """The engine does not have the capability that was asked for."""


class DeadlockDetected(LocknutError, RuntimeError):
    """The caller would wait for itself forever; or it waits in a circle, and has to give way."""

    cycle: tuple[Any, ...] = ()
    """The waits that lead from the caller back to itself, each a `locknut.waits.Edge`; empty if
    there is nobody else in it."""


class BrokenBarrier(LocknutError, RuntimeError):
    """A party died, left or timed out before all had come; or a latch was reset or lost."""


class ConfigurationError(LocknutError, ValueError):
    """An argument, a URL or an option is wrong."""


class BackendError(LocknutError):
    """The engine answered, and the answer was an error."""


class BackendUnavailable(BackendError, ConnectionError):
    """The engine could not be reached, or did not answer in time."""


class BlockingInLoopWarning(RuntimeWarning):
    """A blocking lock is about to stop a running event loop; use `locknut.aio` there."""
