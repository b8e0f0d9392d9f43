"""The decorator `locked` in Flask: keys, answers, losses, and what is around a view."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from flask import Flask, Response, g, request, send_file
from werkzeug.exceptions import Conflict

import locknut
from locknut import ConfigurationError
from locknut.contrib.flask import idempotency_key, init_app, lease, locked, ready
from tests.contrib.starlette.served import Gate, pass_gate, pass_gate_soon, until_waits
from tests.servers.redis import RedisServer

HANGS = 60.0


@pytest.fixture
def other(url: str) -> Iterator[locknut.Locks]:
    """Somebody else, in another process as far as locks can tell."""
    with locknut.connect(url) as locks:
        yield locks


@pytest.fixture
def app(url: str) -> Iterator[Flask]:  # noqa: C901  # its views
    made = Flask(__name__)
    made.config["LOCKNUT_URL"] = url
    locks = init_app(made)
    made.add_url_rule("/ready", view_func=ready)

    @made.before_request
    def who() -> None:
        g.user = request.headers.get("X-User", "")

    @made.post("/orders/<int:order_id>")
    @locked("order:{order_id}:{step}")
    def order(order_id: int) -> dict[str, Any]:
        return {"name": lease().name, "fence": lease().fence}

    @made.post("/user")
    @locked(lambda: f"user:{g.user}", on_busy=423, retry_after=7)
    @locked("user")
    def user() -> str:
        return lease().name

    @made.post("/once")
    @locked(idempotency_key)
    def once() -> str:
        return "done"

    @made.post("/wait")
    @locked("wait", timeout=HANGS)
    async def wait() -> str:
        return "done"

    @made.post("/fails")
    @locked("fails")
    def fails() -> str:
        raise ZeroDivisionError

    @made.post("/ends")
    @locked("ends")
    def ends() -> str:
        pass_gate()
        return "done"

    @made.post("/checks")
    @locked("checks")
    def checks() -> str:
        pass_gate()
        assert lease().lost.wait(HANGS)
        lease().check()
        raise AssertionError

    @made.post("/awaits")
    @locked("awaits")
    async def awaits() -> str:
        await pass_gate_soon()
        return "done"

    @made.post("/streams")
    @locked("streams")
    def streams() -> Response:
        return Response(iter(["a", "b"]))

    @made.post("/file")
    @locked("file")
    def file() -> Response:
        return send_file(__file__)

    yield made
    locks.close()


@pytest.fixture
def asked(app: Flask) -> Iterator[Callable[[str], Future[Any]]]:
    """Post on a thread, for an answer that takes a while."""
    with ThreadPoolExecutor() as pool:
        yield lambda path: pool.submit(lambda: app.test_client().post(path))


@pytest.mark.parametrize(
    "url",
    [pytest.param(each, marks=getattr(pytest.mark, each)) for each in ("file", "redis")],
    indirect=True,
)
def test_busy_is_an_answer_with_retry_after(app: Flask, other: locknut.Locks) -> None:
    client = app.test_client()
    with other.lock("order:7:2"), other.lock("user:ann"):
        busy = client.post("/orders/007?step=2&order_id=8")
        assert (busy.status_code, busy.headers["Retry-After"]) == (409, "1")
        busy = client.post("/user", headers={"X-User": "ann"})
        assert (busy.status_code, busy.headers["Retry-After"]) == (423, "7")
        assert client.post("/orders/8?step=2").status_code == 200
        assert client.post("/user", headers={"X-User": "bob"}).text == "user"
    first, second = (client.post("/orders/7?step=2").get_json() for _ in range(2))
    assert first["name"] == "order:7:2"
    assert first["fence"] < second["fence"]


def test_an_error_handler_of_the_application_decides_how_busy_looks(
    app: Flask, other: locknut.Locks
) -> None:
    app.register_error_handler(409, lambda error: ({"error": error.description}, 409))
    with other.lock("order:7:2"):
        busy = app.test_client().post("/orders/7?step=2")
    assert busy.status_code == 409
    assert busy.get_json()["error"].startswith("busy: another request")


def test_what_the_client_left_out_or_overdid(app: Flask, other: locknut.Locks) -> None:
    client = app.test_client()
    assert client.post("/orders/7").status_code == 400
    assert client.post("/orders/7", query_string={"step": "x" * 2000}).status_code == 400
    assert client.post("/once").status_code == 400
    with other.lock("idempotency:/once:k1"):
        assert client.post("/once", headers={"Idempotency-Key": "k1"}).status_code == 409
        assert client.post("/once", headers={"Idempotency-Key": "k2"}).status_code == 200


def test_a_request_may_wait(app: Flask, other: locknut.Locks, asked: Any) -> None:
    held = other.lock("wait").acquire()
    assert held is not None
    answer = asked("/wait")
    until_waits(other, "wait")
    held.release()
    assert answer.result(HANGS).text == "done"


def test_an_error_of_the_view_releases_the_lock(app: Flask, other: locknut.Locks) -> None:
    assert app.test_client().post("/fails").status_code == 500
    assert other.lock("fails").acquire(blocking=False)


@pytest.mark.parametrize("name", ["ends", "checks", "awaits"])
def test_the_answer_of_a_view_that_lost_its_lock_is_an_error(
    name: str, app: Flask, other: locknut.Locks, asked: Any, gate: Gate
) -> None:
    answer = asked(f"/{name}")
    inside = gate.inside()
    assert other.force_release(name)
    inside.go()
    assert answer.result(HANGS).status_code == 503
    assert "its work may be incomplete" in answer.result().text


def test_a_stream_is_refused_and_a_file_is_none(app: Flask) -> None:
    app.testing = True
    with pytest.raises(ConfigurationError, match="answers with a stream"):
        app.test_client().post("/streams")
    with app.test_client().post("/file") as answer:
        assert b"def test_a_stream_is_refused" in answer.data
    with pytest.raises(ConfigurationError, match="answers with a stream"):

        @locked("generates")
        def generates() -> Iterator[str]:
            yield "never"


def test_without_the_engine_a_request_is_refused_or_runs_as_you_say(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = Flask(__name__)
    locks = init_app(app, "redis://127.0.0.1:1")
    app.add_url_rule("/ready", view_func=ready)
    app.add_url_rule("/closed", "closed", locked("x", retry_after=3)(lambda: "ran"))
    app.add_url_rule("/open", "open", locked("x", fail_open=True)(lambda: "ran"))
    client = app.test_client()
    assert client.get("/ready").status_code == 503
    closed = client.get("/closed")
    assert (closed.status_code, closed.headers["Retry-After"]) == (503, "3")
    assert client.get("/open").text == "ran"
    assert "runs without its lock, as fail_open says" in caplog.text
    locks.close()


@pytest.mark.redis
def test_what_was_done_under_the_lock_is_answered_though_the_engine_is_gone(
    gate: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    app = Flask(__name__)

    @app.post("/")
    @locked("x", ttl=HANGS)
    def pay() -> str:
        pass_gate()
        return "done"

    with RedisServer() as server, ThreadPoolExecutor() as pool, init_app(app, server.url):
        answer = pool.submit(lambda: app.test_client().post("/"))
        inside = gate.inside()
        server.kill()
        inside.go()
        assert answer.result(HANGS).text == "done"
    assert "was not given back yet" in caplog.text


def test_without_init_app_the_default_locks_serve(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCKNUT_URL", url)
    app = Flask(__name__)

    @app.get("/")
    @locked("x")
    def view() -> str:
        return lease().backend

    with locknut.default():
        assert app.test_client().get("/").text == "file"
    with app.app_context(), pytest.raises(ConfigurationError, match="no view with @locked runs"):
        lease()


def test_busy_inside_another_decorator_is_an_http_exception(
    app: Flask, other: locknut.Locks
) -> None:
    with app.test_request_context("/"), other.lock("x"), pytest.raises(Conflict):
        locked("x")(lambda: "never")()
