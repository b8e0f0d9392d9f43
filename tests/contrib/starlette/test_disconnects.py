"""A client that goes away ends its handler, and nothing else: messages, answers, other cancels."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import pytest

from locknut.contrib.disconnects import CancelOnDisconnect
from tests.contracts.documentation import blocks_of
from tests.contracts.sources import ROOT
from tests.contrib.starlette.served import HANGS, Gate, Server, each_engine, until_free

UVICORN = ["-m", "uvicorn", "--uds", "{socket}", "--log-level", "warning", "shop:app"]
HTTP = {"type": "http"}
GONE = {"type": "http.disconnect"}
WHOLE = {"type": "http.response.body", "body": b"done"}


class Client:
    """What a server hands on: the parts of a body, and when its client is gone."""

    def __init__(self, *parts: bytes) -> None:
        self.parts = list(parts)
        self.gone = asyncio.Event()
        self.asked = 0
        self.answers: list[MutableMapping[str, Any]] = []

    async def receive(self) -> MutableMapping[str, Any]:
        self.asked += 1
        if self.parts:
            part = self.parts.pop(0)
            return {"type": "http.request", "body": part, "more_body": bool(self.parts)}
        await self.gone.wait()
        return dict(GONE)

    async def send(self, message: MutableMapping[str, Any]) -> None:
        self.answers.append(message)


def served(client: Client, app: Any) -> asyncio.Task[None]:
    async def serve() -> None:
        await CancelOnDisconnect(app)(dict(HTTP), client.receive, client.send)

    return asyncio.ensure_future(serve())


def test_a_handler_is_cancelled_when_its_client_is_gone() -> None:
    async def story() -> None:
        client, inside, ended = Client(b"body"), asyncio.Event(), asyncio.Event()

        async def app(_scope: Any, _receive: Any, _send: Any) -> None:
            try:
                inside.set()
                await asyncio.Event().wait()
            finally:
                ended.set()

        request = served(client, app)
        await inside.wait()
        client.gone.set()
        await asyncio.wait_for(request, HANGS)  # no CancelledError: nobody cancelled the server
        assert ended.is_set()
        assert request.cancelling() == 0

    asyncio.run(story())


def test_the_handler_gets_every_message_and_the_last_one_as_often_as_it_asks() -> None:
    async def story() -> None:
        client, seen = Client(b"a", b"b", b"c"), []

        async def app(_scope: Any, receive: Any, send: Any) -> None:
            seen.extend([(await receive())["body"] for _ in range(3)])
            await send(dict(WHOLE))
            client.gone.set()
            seen.extend([(await receive())["type"] for _ in range(2)])

        await asyncio.wait_for(served(client, app), HANGS)
        assert seen == [b"a", b"b", b"c", "http.disconnect", "http.disconnect"]
        assert client.answers == [WHOLE]

    asyncio.run(story())


def test_a_body_that_nobody_reads_stays_with_the_server() -> None:
    async def story() -> None:
        client, done = Client(*[b"part"] * 100), asyncio.Event()

        async def app(_scope: Any, _receive: Any, _send: Any) -> None:
            await done.wait()

        request = served(client, app)
        for _ in range(50):
            await asyncio.sleep(0)
        assert client.asked <= 2
        done.set()
        await asyncio.wait_for(request, HANGS)

    asyncio.run(story())


def test_what_comes_after_the_answer_is_left_alone() -> None:
    async def story() -> None:
        client, worked = Client(b""), asyncio.Event()

        async def app(_scope: Any, _receive: Any, send: Any) -> None:
            await send({"type": "http.response.body", "body": b"", "more_body": True})
            await send(dict(WHOLE))
            client.gone.set()
            for _ in range(50):
                await asyncio.sleep(0)
            worked.set()

        await asyncio.wait_for(served(client, app), HANGS)
        assert worked.is_set()

    asyncio.run(story())


@pytest.mark.parametrize("gone", [False, True])
def test_a_cancel_from_elsewhere_is_not_swallowed(gone: bool) -> None:
    async def story() -> None:
        client, inside, leaving = Client(b""), asyncio.Event(), asyncio.Event()

        async def app(_scope: Any, _receive: Any, _send: Any) -> None:
            inside.set()
            try:
                await asyncio.Event().wait()
            finally:
                leaving.set()
                await asyncio.sleep(0)

        request = served(client, app)
        await inside.wait()
        if gone:
            client.gone.set()
            await leaving.wait()
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request

    asyncio.run(story())


def test_an_error_of_the_server_is_the_handlers() -> None:
    async def story() -> None:
        async def broken() -> Any:
            raise OSError("reset")

        async def app(_scope: Any, receive: Any, _send: Any) -> None:
            await receive()

        with pytest.raises(OSError, match="reset"):
            await CancelOnDisconnect(app)(dict(HTTP), broken, Client().send)

    asyncio.run(story())


def test_other_scopes_pass() -> None:
    async def story() -> None:
        client = Client()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            assert (receive, send) == (client.receive, client.send)
            assert scope == {"type": "lifespan"}

        await CancelOnDisconnect(app)({"type": "lifespan"}, client.receive, client.send)

    asyncio.run(story())


def shop(*changes: tuple[str, str]) -> str:
    """The application of the page; its handler waits at the gate."""
    page = ROOT / "docs" / "web.md"
    (code,) = [each.code for each in blocks_of(page) if "CancelOnDisconnect" in each.code]
    for old, new in (("    return ", "    await pass_gate_soon()\n    return "), *changes):
        assert old in code
        code = code.replace(old, new)
    return f"from tests.contrib.starlette.served import pass_gate, pass_gate_soon\n{code}"


@each_engine
def test_the_lock_of_a_client_that_is_gone_is_free(url: str, tmp_path: Path, gate: Gate) -> None:
    (tmp_path / "shop.py").write_text(shop())
    with Server(tmp_path, UVICORN, url) as server:
        server.leave_after("/orders/7/quote", gate).until_gone()
        until_free(url, "order:7")
        quoted = server.posted("/orders/7/quote")
        gate.inside().go()
        assert quoted.result(HANGS).json == {"quoted": 7}


def test_the_lock_of_a_thread_lasts_as_long_as_the_thread(
    url: str, tmp_path: Path, gate: Gate
) -> None:
    (tmp_path / "shop.py").write_text(
        shop(("async def quote", "def quote"), ("await pass_gate_soon()", "pass_gate()"))
    )
    with Server(tmp_path, UVICORN, url) as server:
        inside = server.leave_after("/orders/7/quote", gate)
        assert server.post("/orders/7/quote").status == 409
        inside.go()
        until_free(url, "order:7")
