"""Connections of a loop: names are looked up as for threads, and addresses are tried in turn.

A loop's own way asks the resolver on the threads of its default executor. While that gets no
answer, each try costs one of them for as long as the resolver takes, and there are only a few:
`asyncio.to_thread` of the program waits behind them, and so does the end of `asyncio.run`.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from locknut.runtimes import host_names, sockets

if TYPE_CHECKING:
    import ssl

    from locknut.runtimes.host_names import Found, LookUp

P = TypeVar("P", bound=asyncio.BaseProtocol)


async def connected(
    make: Callable[[], P],
    address: tuple[str, int],
    limit: float,
    *,
    tls: ssl.SSLContext | None = None,
) -> P:
    """The protocol of a connection to the first address that answers. They share what is left of
    the limit, as in `sockets.connected`; the caller keeps it.
    """
    loop = asyncio.get_running_loop()
    failed: OSError | None = None
    until = loop.time() + limit
    found = await addresses(*address)
    for at, (family, _, _, _, place) in enumerate(found):
        made = sockets.open_socket(family)
        try:
            made.setblocking(False)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            async with asyncio.timeout(max(0.001, until - loop.time()) / (len(found) - at)):
                await loop.sock_connect(made, place)
        except OSError as error:
            made.close()
            failed = error
        except BaseException:
            made.close()
            raise
        else:
            name = None if tls is None else address[0]
            _, protocol = await loop.create_connection(
                make, sock=made, ssl=tls, server_hostname=name
            )
            return protocol
    raise failed or OSError(f"{address[0]} has no address")


async def addresses(host: str, port: int) -> Found:
    """As `host_names.addresses`, for a task: whoever stops waiting leaves the question alone."""
    asked = host_names.ask(host, port)
    return await _awaited(asked) if isinstance(asked, host_names.LookUp) else asked


async def _awaited(asked: LookUp) -> Found:
    loop = asyncio.get_running_loop()
    over = loop.create_future()

    def told() -> None:
        if not over.done():
            over.set_result(None)

    def tell() -> None:
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(told)

    if asked.tells(tell):
        await over
    return asked.outcome()
