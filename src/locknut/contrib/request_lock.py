"""What a lock for the time of a request is asked for: the words that all web frameworks share.

The words are checked when a handler is decorated, and not when the first client comes.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import timedelta
from string import Formatter
from typing import Any, Literal, NamedTuple, Self, TypedDict, TypeVar

import locknut
from locknut import BackendError, ConfigurationError, LeaseLost

LeaseT = TypeVar("LeaseT")
_log = logging.getLogger("locknut.contrib")
Duration = float | str | timedelta
Busy = Literal[409, 423]

IDEMPOTENCY_KEY = "Idempotency-Key"


class Words(TypedDict, total=False):
    """The keyword arguments of every `locked`."""

    timeout: Duration
    """How long to wait while the lock is busy; by default not at all."""
    on_busy: Busy
    """The status of the answer if it still is: 409 (the default) or 423."""
    retry_after: int
    """The seconds that this answer has in its Retry-After; 1 by default."""
    ttl: Duration | None
    max_hold: Duration | None
    fail_open: bool
    """Run the handler without the lock if the engine fails when it is asked; else that is a 503."""


class Refusal(Exception):
    """An answer in place of the handler's: each framework makes its own error of it."""

    def __init__(self, status: int, detail: str, retry_after: int | None = None):
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.headers = {} if retry_after is None else {"Retry-After": str(retry_after)}


class RequestLock(NamedTuple):
    """What `locked(...)` was given."""

    timeout: Duration = 0
    on_busy: Busy = 409
    retry_after: int = 1
    ttl: Duration | None = None
    max_hold: Duration | None = None
    fail_open: bool = False

    def checked(self) -> RequestLock:
        """Return it, or raise ConfigurationError; what only an engine can judge waits for one."""
        if self.on_busy not in {409, 423}:
            raise ConfigurationError(f"on_busy must be 409 or 423, got {self.on_busy!r}")
        if type(self.retry_after) is not int or self.retry_after < 0:
            message = f"retry_after must be whole seconds, at least 0, got {self.retry_after!r}"
            raise ConfigurationError(message)
        locknut.locked("x", timeout=self.timeout, ttl=self.ttl, max_hold=self.max_hold)
        return self

    def lock(self, locks: Any, name: object) -> Any:
        """Return the lock of this name, of either face; a name that cannot be used is a 400."""
        if not isinstance(name, str):
            raise ConfigurationError(f"key must make the name of a lock, a str; it made {name!r}")
        try:
            locks.lock(name)
        except ConfigurationError as error:  # empty, too long or no text, as the client sent it
            detail = f"this request makes no name for a lock: {error.message}"
            raise Refusal(400, detail) from error
        return locks.lock(name, self.ttl, self.timeout, max_hold=self.max_hold)

    def busy(self) -> Refusal:
        detail = "busy: another request is at work on the same thing; try again later"
        return Refusal(self.on_busy, detail, self.retry_after)

    def granted(self, lease: LeaseT | None) -> LeaseT:
        """Return what was acquired; None is the answer to the client."""
        if lease is None:
            raise self.busy()
        return lease

    def without(self, error: BackendError) -> None:
        """Go on without the lock, because the engine failed when it was asked; or that is a 503."""
        if not self.fail_open:
            detail = "locks are unavailable, so this request was not begun; try again later"
            raise Refusal(503, detail, self.retry_after) from error
        _log.warning("a request runs without its lock, as fail_open says: %s", error)


class LossReply:
    """What the client of a handler is told when its lock was lost, or could not be given back."""

    def __init__(self) -> None:
        self.ended = False
        """Whether the handler has ended, and did all it had to do under the lock."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if isinstance(error, LeaseLost):  # it may be unsafe to repeat it at once
            detail = "the lock of this request was lost while it ran: its work may be incomplete"
            raise Refusal(503, detail) from error
        if not isinstance(error, BackendError) or not self.ended:
            return False
        # All was done under the lock. The keeper gives it back when the engine answers again.
        _log.warning("the lock of a request that is over was not given back yet: %s", error)
        return True


class Template:
    """Names from the values of a request: "order:{order_id}"."""

    def __init__(self, template: str):
        try:
            parts = list(Formatter().parse(template))
        except ValueError as error:
            raise ConfigurationError(f"{template!r} is not a valid template: {error}") from None
        self.fields = [field for _, field, _, _ in parts if field is not None]
        wrong = [field for field in self.fields if not field.isidentifier()]
        if wrong or not template:
            why = f"{wrong[0]!r} cannot be the name of a parameter" if wrong else "it is empty"
            raise ConfigurationError(f"{template!r} is not a valid template: {why}")
        self._template = template

    def name(self, values: Mapping[str, Any]) -> str:
        """Return the name; a value that the client left out is a 400."""
        missing = [field for field in self.fields if field not in values]
        if missing:
            detail = f"{missing[0]!r} is neither in the path nor in the query, and is needed"
            raise Refusal(400, detail)
        return self._template.format_map(values)


def idempotency_name(path: str, key: str | None) -> str:
    """Return the name for requests to this path with this Idempotency-Key."""
    if not key:
        raise Refusal(400, f"the header {IDEMPOTENCY_KEY} is missing")
    return f"idempotency:{path}:{key}"
