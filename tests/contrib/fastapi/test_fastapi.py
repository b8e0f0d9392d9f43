"""The dependency `locked` in FastAPI: what is locked, what clients are told, what a loss does."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from enum import StrEnum
from typing import Annotated, Any

import pytest

import locknut
from locknut import ConfigurationError, aio
from tests.contrib.starlette.asgi_client import TestClient
from tests.contrib.starlette.served import (
    Gate,
    pass_gate,
    pass_gate_soon,
    until_free,
    until_waits,
)
from tests.servers.redis import RedisServer

pytest.importorskip("fastapi", reason=f"needs CPython older than {sys.version_info[:2]}")

from fastapi import APIRouter, Depends, FastAPI, Header, HTTPException, Query, Request

from locknut.contrib.fastapi import idempotency_key, lifespan, locked, locks_of, ready

HANGS = 60.0
Make = Callable[..., TestClient]


class Size(StrEnum):
    SMALL = "small"


async def current_user(x_user: Annotated[str, Header()]) -> str:
    return x_user


async def by_user(user: Annotated[str, Depends(current_user)]) -> str:
    return f"user:{user}"


router = APIRouter()


@router.get("/fence/{order_id}")
async def fence(
    order_id: int, lease: Annotated[aio.Lease, locked("order:{order_id}")]
) -> dict[str, Any]:
    return {"fence": lease.fence, "name": lease.name}


@router.get("/typed/{number}")
async def typed(
    number: int,
    lease: Annotated[aio.Lease, locked("{number}-{size}-{page}-{pageSize}")],
    size: Size = Size.SMALL,
    page: int = 1,
    per: Annotated[int, Query(alias="pageSize")] = 20,
) -> str:
    return lease.name


@router.post("/user", dependencies=[locked(by_user, on_busy=423, retry_after=7)])
async def user() -> str:
    return "done"


@router.post("/once", dependencies=[locked(idempotency_key)])
def once() -> str:
    return "done"


@router.post("/wait", dependencies=[locked("wait", timeout=HANGS)])
async def wait() -> str:
    return "done"


@router.post("/fails", dependencies=[locked("fails")])
async def fails() -> None:
    raise HTTPException(418, "a teapot")


@router.post("/loses", dependencies=[locked("loses")])
async def loses() -> str:
    await pass_gate_soon()
    return "done"


@router.post("/blocks", dependencies=[locked("blocks")])
async def blocks() -> str:
    pass_gate()  # the loop stands still: nobody can cancel this one
    return "done"


@router.post("/threaded", dependencies=[locked("threaded")])
def threaded() -> str:
    pass_gate()
    return "done"


@router.post("/checks")
def checks(lease: Annotated[aio.Lease, locked("checks")]) -> None:
    pass_gate()
    give_up = time.monotonic() + HANGS
    while time.monotonic() < give_up:
        lease.check()
        time.sleep(0.01)


@router.get("/streams", dependencies=[locked("streams")], response_model=None)
async def streams() -> AsyncIterator[str]:
    yield "never"


@router.get("/own")
async def own(locks: Annotated[aio.Locks, Depends(locks_of)]) -> str:
    async with locks.lock("own") as lease:
        return lease.name


each_engine = pytest.mark.parametrize(
    "url",
    [pytest.param(each, marks=getattr(pytest.mark, each)) for each in ("file", "redis")],
    indirect=True,
)


@pytest.fixture
def other(url: str) -> Iterator[locknut.Locks]:
    """Somebody else, in another process as far as locks can tell."""
    with locknut.connect(url) as locks:
        yield locks


@pytest.fixture
def client(url: str) -> Iterator[TestClient]:
    app = FastAPI(lifespan=lifespan(url))
    app.include_router(router)
    app.get("/ready")(ready)
    with TestClient(app, raise_server_exceptions=False) as made:
        yield made


@pytest.fixture
def asked(client: TestClient) -> Iterator[Callable[[str], Future[Any]]]:
    """Post on a thread, for an answer that takes a while."""
    with ThreadPoolExecutor() as pool:
        yield lambda path: pool.submit(client.post, path)


def test_the_function_gets_the_lease(client: TestClient) -> None:
    first, second = (client.get("/fence/7").json() for _ in range(2))
    assert first["name"] == "order:7"
    assert first["fence"] < second["fence"]


@each_engine
def test_busy_is_an_answer_with_retry_after(client: TestClient, other: locknut.Locks) -> None:
    with other.lock("order:7"), other.lock("user:ann"):
        busy = client.get("/fence/7")
        assert (busy.status_code, busy.headers["retry-after"]) == (409, "1")
        busy = client.post("/user", headers={"x-user": "ann"})
        assert (busy.status_code, busy.headers["retry-after"]) == (423, "7")
        assert client.get("/fence/8").status_code == 200
        assert client.post("/user", headers={"x-user": "bob"}).status_code == 200
    assert client.get("/fence/7").status_code == 200


def test_a_request_may_wait(client: TestClient, other: locknut.Locks, asked: Any) -> None:
    lease = other.lock("wait").acquire()
    assert lease is not None
    answer = asked("/wait")
    until_waits(other, "wait")
    assert client.get("/ready").status_code == 200  # the loop is not blocked meanwhile
    lease.release()
    assert answer.result(HANGS).status_code == 200


def test_one_order_has_one_lock_however_it_is_spelt(client: TestClient) -> None:
    """Else a client could get around the lock by writing 007."""
    spellings = ["7", "007", "+7", "7?page=01&pageSize=020", "7?size=small&page=1"]
    assert {client.get(f"/typed/{each}").json() for each in spellings} == {"7-small-1-20"}
    assert client.get("/typed/7?page=2").json() == "7-small-2-20"
    assert client.get("/typed/seven").status_code == 422


def test_equal_requests_by_their_idempotency_key(client: TestClient, other: locknut.Locks) -> None:
    assert client.post("/once").status_code == 400
    with other.lock("idempotency:/once:k1"):
        assert client.post("/once", headers={"Idempotency-Key": "k1"}).status_code == 409
        assert client.post("/once", headers={"Idempotency-Key": "k2"}).status_code == 200
    too_long = client.post("/once", headers={"Idempotency-Key": "k" * 2000})
    assert too_long.status_code == 400
    assert "at most 1024" in too_long.json()["detail"]


def test_an_error_of_the_function_releases_the_lock(
    client: TestClient, other: locknut.Locks
) -> None:
    assert client.post("/fails").status_code == 418
    assert other.lock("fails").acquire(blocking=False)


@each_engine
def test_a_lost_lock_cancels_the_function(
    client: TestClient, other: locknut.Locks, asked: Any, gate: Gate
) -> None:
    answer = asked("/loses")
    inside = gate.inside()
    assert other.force_release("loses")
    inside.until_gone()
    assert answer.result(HANGS).status_code == 503
    assert "lost" in answer.result().json()["detail"]


def test_middleware_may_be_in_between(other: locknut.Locks, url: str, gate: Gate) -> None:
    """It runs the application in a task of its own: that one is cancelled, and answers."""
    app = FastAPI(lifespan=lifespan(url))
    app.include_router(router)
    app.middleware("http")(lambda request, call_next: call_next(request))
    with TestClient(app) as behind, ThreadPoolExecutor() as pool:
        answer = pool.submit(behind.post, "/loses")
        with gate.inside() as inside:
            assert other.force_release("loses")
            inside.until_gone()
        assert answer.result(HANGS).status_code == 503
        assert behind.get("/fence/7").status_code == 200


@pytest.mark.parametrize("path", ["blocks", "threaded", "checks"])
def test_what_cannot_be_cancelled_ends_and_its_answer_is_an_error(
    path: str, client: TestClient, other: locknut.Locks, asked: Any, gate: Gate
) -> None:
    answer = asked(f"/{path}")
    inside = gate.inside()
    assert other.force_release(path)
    inside.go()
    assert answer.result(HANGS).status_code == 503


def test_a_stream_is_refused(client: TestClient) -> None:
    assert client.get("/streams").status_code == 500
    refused = pytest.raises(ConfigurationError, match="streams answers with a stream")
    with TestClient(client.app) as strict, refused:
        strict.get("/streams")


def test_what_a_dependency_commits_it_commits_under_the_lock(url: str) -> None:
    seen: list[object] = []

    async def session(request: Request) -> AsyncIterator[None]:
        yield
        seen.append((await locks_of(request).info("order")).locked)

    app = FastAPI(lifespan=lifespan(url))
    needs = [locked("order"), Depends(session, scope="function")]
    app.get("/", dependencies=needs)(lambda: "done")
    with TestClient(app) as client:
        assert client.get("/").json() == "done"
    assert seen == [True]


def test_locks_of_your_own(client: TestClient) -> None:
    assert client.get("/own").json() == "own"
    assert client.get("/ready").json() == {"locks": "file"}


NOWHERE = "redis://127.0.0.1:1"


def test_without_the_engine_a_request_is_refused_or_runs_as_you_say(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = FastAPI(lifespan=lifespan(NOWHERE))
    app.get("/ready")(ready)
    app.get("/closed", dependencies=[locked("x", retry_after=3)])(lambda: "ran")

    @app.get("/open")
    async def runs(lease: Annotated[aio.Lease | None, locked("x", fail_open=True)]) -> str:
        return f"ran with {lease}"

    with TestClient(app) as client:
        assert (client.get("/ready").status_code, client.get("/ready").json()) == (
            *(503, {"locks": "unavailable"}),
        )
        closed = client.get("/closed")
        assert (closed.status_code, closed.headers["retry-after"]) == (503, "3")
        assert client.get("/open").json() == "ran with None"
    assert "runs without its lock, as fail_open says" in caplog.text


@pytest.mark.redis
@pytest.mark.parametrize("path", ["/awaited", "/threaded"])
def test_what_was_done_under_the_lock_is_answered_though_the_engine_is_gone(
    path: str, gate: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    app = FastAPI()

    @app.get("/awaited", dependencies=[locked("x", ttl=HANGS)])
    async def awaited() -> str:
        await pass_gate_soon()
        return "done"

    @app.get("/threaded", dependencies=[locked("x", ttl=HANGS)])
    def threaded() -> str:
        pass_gate()
        return "done"

    with RedisServer() as server, ThreadPoolExecutor() as pool:
        app.router.lifespan_context = lifespan(server.url)
        with TestClient(app) as client:
            answer = pool.submit(client.get, path)
            inside = gate.inside()
            server.kill()
            inside.go()
            assert answer.result(HANGS).json() == "done"
    assert "was not given back yet" in caplog.text


def test_without_the_lifespan_the_error_says_what_to_write() -> None:
    app = FastAPI()
    app.get("/", dependencies=[locked("x")])(lambda: "ran")
    with pytest.raises(ConfigurationError, match=r"make it with lifespan=lifespan\(url\)"):
        TestClient(app).get("/")


def test_a_request_that_is_cancelled_leaves_no_thread_without_a_lock(
    url: str, other: locknut.Locks, gate: Gate
) -> None:
    """As by a forced shutdown: the task is gone, its thread goes on, and the lock goes with it."""
    app = FastAPI()

    @app.get("/", dependencies=[locked("threaded")])
    def threaded() -> None:
        pass_gate()

    async def run() -> None:
        async with lifespan(url)(app) as state:
            request = asyncio.create_task(call(app, dict(state)))
            with await asyncio.to_thread(gate.inside) as inside:
                request.cancel()
                with suppress(asyncio.CancelledError):
                    await request
                del request
                assert other.lock("threaded").acquire(blocking=False) is None
                inside.go()
            await asyncio.to_thread(until_free, url, "threaded")

    asyncio.run(run())


def test_a_request_that_is_cancelled_releases_its_lock(
    url: str, other: locknut.Locks, gate: Gate
) -> None:
    app = FastAPI()

    @app.get("/", dependencies=[locked("awaited")])
    async def awaited() -> None:
        await pass_gate_soon()

    async def run() -> None:
        async with lifespan(url)(app) as state:
            request = asyncio.create_task(call(app, dict(state)))
            with await asyncio.to_thread(gate.inside) as inside:
                request.cancel()
                with suppress(asyncio.CancelledError):
                    await request
                assert other.lock("awaited").acquire(blocking=False)
                await asyncio.to_thread(inside.until_gone)

    asyncio.run(run())


async def call(app: FastAPI, state: dict[str, Any]) -> None:
    """What a server does for one request."""

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        pass

    scope = {"type": "http", "method": "GET", "path": "/", "raw_path": b"/", "query_string": b"",
             "headers": [], "root_path": "", "state": state, "scheme": "http"}  # fmt: skip
    await app(scope, receive, send)
