"""Locks in Starlette: opened with the application, held for a handler, and told to clients.

    app = Starlette(routes=[Route("/orders/{order_id:int}", pay, methods=["POST"])],
                    lifespan=lifespan("redis://cache.example.org"))

    @locked("order:{order_id}", on_busy=409, retry_after=2)
    async def pay(request): ...

One asyncio Locks serves all handlers. An `async def` is cancelled when the lock is lost. A plain
`def` runs in a thread, which nothing can stop: it ends first. Either way the answer is a 503.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from contextvars import ContextVar
from typing import Any, TypeVar, Unpack

from locknut import BackendError, ConfigurationError, LocknutError, aio
from locknut.contrib.disconnects import CancelOnDisconnect
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
    from starlette.concurrency import run_in_threadpool
    from starlette.exceptions import HTTPException
    from starlette.requests import HTTPConnection, Request
    from starlette.responses import JSONResponse, StreamingResponse
except ImportError as error:
    message = 'Starlette is not installed; get it with: pip install "locknut[starlette]"'
    raise ImportError(message) from error

__all__ = ["CancelOnDisconnect", "idempotency_key", "lifespan", "locked", "locks_of", "ready"]

Handler = TypeVar("Handler", bound=Callable[..., Any])
Key = str | Callable[[Request], str | Awaitable[str]]

_STATE = "locknut"
_log = logging.getLogger("locknut.contrib")
_kept: ContextVar[aio.Lease] = ContextVar("locknut.contrib.kept")
"""The lease of a handler in a thread: the thread runs in a copy of the request's context."""


def lifespan(
    url: Any = None, **options: Any
) -> Callable[[Any], AbstractAsyncContextManager[Mapping[str, Any]]]:
    """Return a lifespan with a Locks, from `aio.connect` with these arguments, until its end.

    A lifespan of your own enters it, and yields what it gives along with its own state.
    """

    @asynccontextmanager
    async def opened(app: Any) -> AsyncIterator[Mapping[str, Any]]:  # noqa: ARG001  # as asked for
        async with aio.connect(url, **options) as locks:
            yield {_STATE: locks}

    return opened


def locks_of(request: HTTPConnection) -> aio.Locks:
    """Return the Locks of the application. In FastAPI it is a dependency as well."""
    found = getattr(request.state, _STATE, None)
    if found is None:
        message = (
            "this application has no Locks: make it with lifespan=lifespan(url), or let your own "
            "lifespan yield what that one yields (a test's client has to run the lifespan)"
        )
        raise ConfigurationError(message)
    return found  # type: ignore[no-any-return]  # what is in the state has no type


async def ready(request: Request) -> JSONResponse:
    """Answer 200 if the engine works and 503 if not: a handler for probes of readiness."""
    locks = locks_of(request)
    try:
        await locks.ping(timeout=2)
    except BackendError as error:
        _log.warning("not ready: %s", error)
        return JSONResponse({"locks": "unavailable"}, status_code=503)
    return JSONResponse({"locks": locks.backend})


def idempotency_key(request: Request) -> str:
    """Make a key of the path and of the header Idempotency-Key; without one the answer is 400."""
    with answered():
        return idempotency_name(request.url.path, request.headers.get(IDEMPOTENCY_KEY))


def locked(key: Key, **words: Unpack[Words]) -> Callable[[Handler], Handler]:
    """Run a handler under a lock: `key` is a template over path and query, or a function.

    Others get `on_busy` with a Retry-After, at once or after `timeout`. The lock is free again when
    the client has the answer.
    """
    asked = RequestLock(**words).checked()
    template = Template(key) if isinstance(key, str) else None

    def decorate(handler: Handler) -> Handler:
        threaded = runs_in_a_thread(handler)

        @functools.wraps(handler)
        async def under_lock(*args: Any, **kwargs: Any) -> Any:
            request = _request_among((*args, *kwargs.values()), handler)
            with answered():
                name = template.name(values_of(request)) if template else key(request)  # type: ignore[operator]
            if inspect.isawaitable(name):
                name = await name
            async with holding(locks_of(request), name, asked, threaded=threaded):
                if threaded:
                    response = await run_in_threadpool(handler, *args, **kwargs)
                else:
                    response = await handler(*args, **kwargs)
                if isinstance(response, StreamingResponse):
                    raise ConfigurationError(streams(handler))
                return response

        return under_lock  # type: ignore[return-value]  # it takes what the handler takes

    return decorate


def _request_among(given: Iterable[Any], handler: Callable[..., Any]) -> Request:
    found = next((each for each in given if isinstance(each, Request)), None)
    if found is None:
        name = getattr(handler, "__qualname__", repr(handler))
        message = (
            f"{name} was called without a Request: this decorator is for handlers of Starlette; "
            "in FastAPI use dependencies=[locked(...)], of locknut.contrib.fastapi"
        )
        raise ConfigurationError(message)
    return found


def values_of(request: Request) -> dict[str, Any]:
    """Return what a template may name: the path decides before the query."""
    return {**request.query_params, **request.path_params}


def runs_in_a_thread(handler: Callable[..., Any]) -> bool:
    """Return whether Starlette and FastAPI run it in a thread; if in doubt, True is safe."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    call = getattr(handler, "__call__", None)  # noqa: B004  # an object with an `async def __call__`
    return not (inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(call))


def streams(handler: Callable[..., Any]) -> str:
    """Return why a handler that streams is refused."""
    name = getattr(handler, "__qualname__", repr(handler))
    return (
        f"{name} answers with a stream, which goes on after the handler, without its lock: take "
        "the lock inside of what streams, with `async with locks_of(request).lock(...)`"
    )


class answered:  # noqa: N801  # as contextlib's own
    """Make a refusal the answer to the client."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, refusal: BaseException | None, trace: object) -> None:
        if isinstance(refusal, Refusal):
            raise HTTPException(refusal.status, refusal.detail, refusal.headers) from refusal


@asynccontextmanager
async def holding(
    locks: aio.Locks, name: object, asked: RequestLock, *, threaded: bool
) -> AsyncIterator[aio.Lease | None]:
    """Hold the lock for what runs inside; None is without it, which only `fail_open` allows."""
    with answered():
        lease = await _acquired(locks, name, asked)
        if lease is None:
            yield None
            return
        with LossReply() as outcome:
            async with _in_a_thread(lease) if threaded else lease:
                yield lease
                outcome.ended = True


async def _acquired(locks: aio.Locks, name: object, asked: RequestLock) -> aio.Lease | None:
    lock = asked.lock(locks, name)
    try:
        lease: aio.Lease | None = await lock.acquire()
    except BackendError as error:
        asked.without(error)
        return None
    return asked.granted(lease)


@asynccontextmanager
async def _in_a_thread(lease: aio.Lease) -> AsyncIterator[None]:
    """Hold the lease for a handler in a thread, which a loss does not cancel.

    If the request's own task is cancelled (a forced shutdown, a timeout around the application),
    the thread goes on. Its context has the lease, and the end of both gives the lock back.
    """
    _kept.set(lease)
    try:
        yield
    except asyncio.CancelledError:
        raise
    except BaseException:
        with suppress(LocknutError):  # the handler's own error matters more
            await lease.release()
        raise
    await lease.release()
