"""An ASGI application whose handler is cancelled, and gives its lock back, when the client leaves.

    app.add_middleware(CancelOnDisconnect)

A server tells that a client is gone only to whoever asks it for the next message of the request. A
handler that is at work does not ask. So this one does, a message ahead of the handler, which gets
all of them in the same order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, cast

__all__ = ["CancelOnDisconnect"]

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

_GONE = "http.disconnect"


class CancelOnDisconnect:
    """Cancel what handles a request as soon as nobody waits for the answer any more.

    An `async def` ends at its next `await`, and its lock is released. A `def` runs in a thread,
    which nothing can stop: its lock is released when the thread has ended. What goes on after the
    answer, such as a background task, is left alone.
    """

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await _Exchange(receive, send).run(self._app, scope)
        else:
            await self._app(scope, receive, send)


class _Exchange:
    """One request, and its answer."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        # One at a time: a body that nobody reads yet stays with the server, and with its client.
        self._messages: asyncio.Queue[Message | Exception] = asyncio.Queue(1)
        self._answered = False
        self._left = False

    async def run(self, app: App, scope: MutableMapping[str, Any]) -> None:
        handler = cast("asyncio.Task[Any]", asyncio.current_task())
        cancelled_before = handler.cancelling()
        reader = asyncio.ensure_future(self._read_ahead(handler))
        try:
            await app(scope, self._next, self._answer)
        except asyncio.CancelledError:
            # Somebody else may have cancelled it too, and wants to see that.
            if not self._left or handler.cancelling() - 1 > cancelled_before:
                raise
        finally:
            reader.cancel()
            if self._left:
                handler.uncancel()

    async def _read_ahead(self, handler: asyncio.Task[Any]) -> None:
        gone = False
        while not gone:
            try:
                message = await self._receive()
            except Exception as error:  # noqa: BLE001  # it is the handler's, which asks next
                await self._messages.put(error)
                return
            gone = message["type"] == _GONE
            if gone and not self._answered:
                self._left = True
                handler.cancel()
            await self._messages.put(message)

    async def _next(self) -> Message:
        message = await self._messages.get()
        if isinstance(message, Exception):
            raise message
        if message["type"] == _GONE:
            self._messages.put_nowait(message)  # whoever asks again is told again
        return message

    async def _answer(self, message: Message) -> None:
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            self._answered = True
        await self._send(message)
