"""The decorator `locked` in Starlette: both kinds of handlers, keys, losses and cancellation."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from contextvars import copy_context
from typing import Any

import anyio
import pytest
from starlette.applications import Starlette
from starlette.endpoints import HTTPEndpoint
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, StreamingResponse
from starlette.routing import Mount, Route

import locknut
from locknut import ConfigurationError
from locknut.contrib.request_lock import RequestLock
from locknut.contrib.starlette import (
    holding,
    idempotency_key,
    lifespan,
    locked,
    locks_of,
    ready,
)
from tests.contrib.starlette.asgi_client import TestClient
from tests.contrib.starlette.served import Gate, pass_gate, pass_gate_soon, until_free

HANGS = 60.0


@locked("order:{order_id}:{step}")
async def awaited(request: Request) -> PlainTextResponse:
    return PlainTextResponse("awaited")


@locked("order:{order_id}:{step}", on_busy=423, retry_after=7)
def threaded(request: Request) -> PlainTextResponse:
    return PlainTextResponse("threaded")


class Order(HTTPEndpoint):
    @locked("order:{order_id}:{step}")
    async def get(self, request: Request) -> PlainTextResponse:
        return PlainTextResponse("method")


async def of_the_body(request: Request) -> str:
    return "body:" + (await request.body()).decode()


@locked(of_the_body)
async def by_body(request: Request) -> PlainTextResponse:
    return PlainTextResponse((await request.body()).decode())


@locked(idempotency_key)
async def once(request: Request) -> PlainTextResponse:
    return PlainTextResponse("once")


@locked(lambda request: 42)  # type: ignore[arg-type,return-value]  # as people forget
async def unnamed(request: Request) -> PlainTextResponse:
    raise AssertionError


@locked("loses")
async def loses(request: Request) -> PlainTextResponse:
    await pass_gate_soon()
    return PlainTextResponse("done")


@locked("swallows")
async def swallows(request: Request) -> PlainTextResponse:
    with suppress(asyncio.CancelledError):
        await pass_gate_soon()
    return PlainTextResponse("done")


@locked("ends")
def ends(request: Request) -> PlainTextResponse:
    pass_gate()
    return PlainTextResponse("done")


@locked("streams")
async def streams(request: Request) -> StreamingResponse:
    return StreamingResponse(iter(["a", "b"]))


ROUTES = [
    Route("/awaited/{order_id:int}", awaited),
    Route("/threaded/{order_id:int}", threaded),
    Route("/method/{order_id:int}", Order),
    Route("/body", by_body, methods=["POST"]),
    Route("/once", once),
    Route("/unnamed", unnamed),
    *(Route(f"/{each.__name__}", each) for each in (loses, swallows, ends, streams)),
    Route("/ready", ready),
]


@pytest.fixture
def other(url: str) -> Iterator[locknut.Locks]:
    """Somebody else, in another process as far as locks can tell."""
    with locknut.connect(url) as locks:
        yield locks


@pytest.fixture
def client(url: str) -> Iterator[TestClient]:
    app = Starlette(routes=[*ROUTES, Mount("/below", Starlette(routes=ROUTES))])
    app.router.lifespan_context = lifespan(url)
    with TestClient(app) as made:
        yield made


@pytest.fixture
def asked(client: TestClient) -> Iterator[Callable[[str], Future[Any]]]:
    """Ask on a thread, for an answer that takes a while."""
    with ThreadPoolExecutor() as pool:
        yield lambda path: pool.submit(client.get, path)


@pytest.mark.parametrize(
    ("kind", "status", "after"),
    [("awaited", 409, "1"), ("threaded", 423, "7"), ("method", 409, "1")],
)
def test_busy_is_an_answer(
    kind: str, status: int, after: str, client: TestClient, other: locknut.Locks
) -> None:
    assert client.get(f"/{kind}/7?step=2").text == kind
    with other.lock("order:7:2"):
        for path in (f"/{kind}/7?step=2", f"/below/{kind}/007?step=2&order_id=8"):
            busy = client.get(path)
            assert (busy.status_code, busy.headers["retry-after"]) == (status, after)
        assert client.get(f"/{kind}/7?step=3").text == kind
    assert client.get(f"/{kind}/7?step=2").text == kind


def test_what_the_template_needs_has_to_be_there(client: TestClient) -> None:
    missing = client.get("/awaited/7")
    assert missing.status_code == 400
    assert "'step' is neither in the path nor in the query" in missing.text
    assert client.get("/awaited/7", params={"step": "x" * 2000}).status_code == 400


def test_a_key_may_be_awaited(client: TestClient, other: locknut.Locks) -> None:
    with other.lock("body:ann"):
        assert client.post("/body", content="ann").status_code == 409
        assert client.post("/body", content="bob").text == "bob"


def test_a_key_of_the_header(client: TestClient, other: locknut.Locks) -> None:
    assert client.get("/once").status_code == 400
    with other.lock("idempotency:/once:k1"):
        assert client.get("/once", headers={"Idempotency-Key": "k1"}).status_code == 409
        assert client.get("/once", headers={"Idempotency-Key": "k2"}).text == "once"


def test_a_key_that_is_no_text_is_an_error_of_the_program(client: TestClient) -> None:
    with pytest.raises(
        ConfigurationError, match="key must make the name of a lock, a str; it made 42"
    ):
        client.get("/unnamed")


def test_a_function_of_fastapi_is_told_which_form_is_its_own() -> None:
    @locked("x")
    async def pay(order_id: int) -> None:
        raise AssertionError

    with pytest.raises(ConfigurationError, match=r"pay was called without a Request.* in FastAPI"):
        asyncio.run(pay(order_id=7))


@pytest.mark.parametrize("name", ["loses", "swallows"])
def test_a_lost_lock_cancels_the_handler(
    name: str, client: TestClient, other: locknut.Locks, asked: Any, gate: Gate
) -> None:
    answer = asked(f"/{name}")
    inside = gate.inside()
    assert other.force_release(name)
    inside.until_gone()
    assert answer.result(HANGS).status_code == 503


def test_a_handler_in_a_thread_ends_and_its_answer_is_an_error(
    client: TestClient, other: locknut.Locks, asked: Any, gate: Gate
) -> None:
    answer = asked("/ends")
    inside = gate.inside()
    assert other.force_release("ends")
    inside.go()
    assert answer.result(HANGS).status_code == 503


def test_a_stream_is_refused(client: TestClient) -> None:
    with pytest.raises(ConfigurationError, match="streams answers with a stream"):
        client.get("/streams")


def test_ready(client: TestClient) -> None:
    assert client.get("/ready").json() == {"locks": "file"}
    with TestClient(Starlette(routes=ROUTES, lifespan=lifespan("redis://127.0.0.1:1"))) as lonely:
        assert lonely.get("/ready").status_code == 503
        refused = lonely.get("/loses")
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")


def test_a_lifespan_of_your_own_passes_the_state_on(url: str) -> None:
    @asynccontextmanager
    async def own(app: Starlette) -> AsyncIterator[dict[str, Any]]:
        async with lifespan(url, label="shop")(app) as state:
            opened.append(state["locknut"])
            yield {**state, "greeting": "hello"}

    async def greets(request: Request) -> JSONResponse:
        return JSONResponse([request.state.greeting, locks_of(request).place])

    opened: list[Any] = []
    with TestClient(Starlette(routes=[Route("/", greets)], lifespan=own)) as client:
        assert client.get("/").json() == ["hello", url.replace("file://", "file:")]
    assert repr(opened[0]).endswith("closed>")


@pytest.mark.parametrize("handler", [loses, ends], ids=["awaited", "threaded"])
@pytest.mark.parametrize("how", ["task", "scope"])
def test_a_request_that_is_cancelled(
    handler: Any, how: str, url: str, other: locknut.Locks, gate: Gate
) -> None:
    """The lock is there for as long as anything of the handler is, and not for longer."""
    name = handler.__name__

    async def run() -> None:
        async with lifespan(url)(None) as state:
            scope = anyio.CancelScope()
            request = asyncio.create_task(call(handler, dict(state), scope))
            with await asyncio.to_thread(gate.inside) as inside:
                if how == "task":
                    request.cancel()
                    await ended(request)
                else:
                    scope.cancel()
                if handler is ends:
                    assert other.lock(name).acquire(blocking=False) is None
                    inside.go()
                else:
                    await asyncio.to_thread(inside.until_gone)
            await ended(request)
            del request
            await asyncio.to_thread(until_free, url, name)

    asyncio.run(run())


def test_it_is_the_context_of_the_thread_that_keeps_the_lock(
    url: str, other: locknut.Locks, gate: Gate
) -> None:
    """Whatever else a library of threads may keep or drop."""

    async def request(state: Any) -> None:
        async with holding(state["locknut"], "x", RequestLock(), threaded=True):
            threading.Thread(target=copy_context().run, args=(pass_gate,)).start()
            await asyncio.Event().wait()

    async def run() -> None:
        async with lifespan(url)(None) as state:
            task = asyncio.create_task(request(state))
            with await asyncio.to_thread(gate.inside) as inside:
                task.cancel()
                await ended(task)
                del task
                gc.collect()
                await asyncio.create_task(forget(state["locknut"].lock("y")))
                gc.collect()
                await asyncio.to_thread(until_free, url, "y")  # x would have come before it
                assert other.lock("x").acquire(blocking=False) is None
                inside.go()
            await asyncio.to_thread(until_free, url, "x")

    asyncio.run(run())


async def forget(lock: Any) -> None:
    """Acquire it, and never release it."""
    assert await lock.acquire()


async def ended(request: asyncio.Task[None]) -> None:
    with suppress(asyncio.CancelledError):
        await request


async def call(handler: Any, state: dict[str, Any], scope: anyio.CancelScope) -> None:
    """One request, in a scope as middleware has it."""
    with scope:
        await handler(Request({"type": "http", "headers": [], "state": state, "path_params": {},
                               "query_string": b""}))  # fmt: skip
