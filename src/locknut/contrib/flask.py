"""Locks in Flask: a decorator that holds a lock for a view, and tells clients that it is busy.

    @app.post("/orders/<int:order_id>/pay")
    @locked("order:{order_id}", on_busy=409, retry_after=2)
    def pay(order_id): ...

A view runs in a thread, or a greenlet, which nothing can stop. A view that loses its lock ends, and
the answer is a 503; `lease().check()` before a step that cannot be undone ends it earlier.
"""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, Unpack

import locknut
from locknut import BackendError, ConfigurationError
from locknut.contrib.request_lock import (
    IDEMPOTENCY_KEY,
    LossReply,
    Refusal,
    RequestLock,
    Template,
    Words,
    idempotency_name,
)

try:
    from flask import Flask, Response, current_app, g, request
    from werkzeug.exceptions import HTTPException, default_exceptions
except ImportError as error:
    message = 'Flask is not installed; get it with: pip install "locknut[flask]"'
    raise ImportError(message) from error

__all__ = ["idempotency_key", "init_app", "lease", "locked", "locks_of", "ready"]

View = TypeVar("View", bound=Callable[..., Any])

_NAME = "locknut"
_log = logging.getLogger("locknut.contrib")


def init_app(app: Flask, url: Any = None, **options: Any) -> locknut.Locks:
    """Give the application a Locks, from `connect` with these arguments, and return it.

    The URL may also be in its configuration, as LOCKNUT_URL. Without this call the Locks is that of
    `locknut.default()`.
    """
    place = url if url is not None else app.config.get("LOCKNUT_URL")
    locks = locknut.connect(place, **options)
    app.extensions[_NAME] = locks
    return locks


def locks_of(app: Flask | None = None) -> locknut.Locks:
    """Return the Locks of this application, or of the current one."""
    found = (current_app if app is None else app).extensions.get(_NAME)
    return locknut.default() if found is None else found


def lease() -> locknut.Lease:
    """Return the lease of the innermost `locked` view that runs: for its `check()` and `fence`."""
    held: list[locknut.Lease] = g.get(_NAME, [])
    if not held:
        raise ConfigurationError("no view with @locked runs here, or it runs without its lock")
    return held[-1]


def ready() -> tuple[dict[str, str], int]:
    """Answer 200 if the engine works and 503 if not: a view for probes of readiness."""
    locks = locks_of()
    try:
        locks.ping(timeout=2)
    except BackendError as error:
        _log.warning("not ready: %s", error)
        return {"locks": "unavailable"}, 503
    return {"locks": locks.backend}, 200


def idempotency_key() -> str:
    """Make a key of the path and of the header Idempotency-Key; without one the answer is 400."""
    with _answered():
        return idempotency_name(request.path, request.headers.get(IDEMPOTENCY_KEY))


def locked(key: str | Callable[[], str], **words: Unpack[Words]) -> Callable[[View], View]:
    """Run a view under a lock: `key` is a template over path and query, or a function.

    Others get `on_busy` with a Retry-After, at once or after `timeout`. The lock is free again when
    the client has the answer.
    """
    asked = RequestLock(**words).checked()
    template = Template(key) if isinstance(key, str) else None

    def decorate(view: View) -> View:
        if inspect.isgeneratorfunction(view) or inspect.isasyncgenfunction(view):
            raise ConfigurationError(_streams(view))

        @functools.wraps(view)
        def under_lock(*args: Any, **kwargs: Any) -> Any:
            with _answered():
                values = {**request.args, **(request.view_args or {})}
                name = template.name(values) if template else key()  # type: ignore[operator]
            with _holding(name, asked):
                answer = current_app.ensure_sync(view)(*args, **kwargs)
                if _is_stream(answer):
                    raise ConfigurationError(_streams(view))
                return answer

        return under_lock  # type: ignore[return-value]  # it takes what the view takes

    return decorate


@contextmanager
def _answered() -> Iterator[None]:
    """Make a refusal the answer to the client."""
    try:
        yield
    except Refusal as refusal:
        kind: type[HTTPException] = default_exceptions[refusal.status]
        response = kind(refusal.detail).get_response()
        response.headers.update(refusal.headers)
        raise kind(refusal.detail, response) from refusal


@contextmanager
def _holding(name: object, asked: RequestLock) -> Iterator[None]:
    """Hold the lock for what runs inside."""
    with _answered():
        held = _acquired(name, asked)
        if held is None:
            yield
            return
        around: list[locknut.Lease] = g.setdefault(_NAME, [])
        around.append(held)
        try:
            with LossReply() as outcome, held:
                yield
                outcome.ended = True
        finally:
            around.pop()


def _acquired(name: object, asked: RequestLock) -> locknut.Lease | None:
    lock = asked.lock(locks_of(), name)
    try:
        held: locknut.Lease | None = lock.acquire()
    except BackendError as error:
        asked.without(error)
        return None
    return asked.granted(held)


def _is_stream(answer: Any) -> bool:
    """Return whether parts of the answer are still to be made; an open file is not meant."""
    first = answer[0] if isinstance(answer, tuple) and answer else answer
    if isinstance(first, Response):
        return first.is_streamed and not first.direct_passthrough
    return inspect.isgenerator(first)


def _streams(view: Callable[..., Any]) -> str:
    return (
        f"{view.__qualname__} answers with a stream, which goes on after the view, without its "
        "lock: take the lock inside of what streams, with `with locks_of(app).lock(...)`"
    )
