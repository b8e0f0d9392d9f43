"""A customer clicks "pay" five times, and two servers get the clicks: the card is charged once.

The same key names the same order, whichever server gets it. A click that comes while another one
is at work is answered 409; one that comes later gets the same receipt.
Needs `pip install fastapi httpx`. Runs on files of its own, or on the engine LOCKNUT_URL names.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Annotated

import httpx
from fastapi import FastAPI, Header, HTTPException

from locknut import AcquireTimeout, aio

CLICKS = 5
receipts: dict[str, str] = {}
charges: list[str] = []
bank = asyncio.Event()
"""When it is set, payments come through."""


def server(url: str, namespace: str) -> FastAPI:
    """One of the servers, with locks of its own."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with aio.connect(url, namespace=namespace) as locks:
            app.state.locks = locks
            yield

    app = FastAPI(lifespan=lifespan)

    @app.post("/pay")
    async def pay(idempotency_key: Annotated[str, Header()]) -> dict[str, str]:
        try:
            async with app.state.locks.lock(f"order:{idempotency_key}", timeout=0):
                if idempotency_key not in receipts:
                    charges.append(idempotency_key)
                    await bank.wait()
                    receipts[idempotency_key] = f"receipt {len(charges)}"
                return {"receipt": receipts[idempotency_key]}
        except AcquireTimeout:
            raise HTTPException(409, "this order is being paid", {"Retry-After": "1"}) from None

    return app


async def click(app: FastAPI) -> httpx.Response:
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://shop") as browser:
        return await browser.post("/pay", headers={"Idempotency-Key": "42"})


async def shop(url: str) -> bool:
    namespace = f"example-{secrets.token_hex(4)}"
    servers = [server(url, namespace), server(url, namespace)]
    async with AsyncExitStack() as stack:
        for app in servers:
            await stack.enter_async_context(app.router.lifespan_context(app))
        clicks = [asyncio.create_task(click(servers[n % 2])) for n in range(CLICKS)]
        refused: list[int] = []
        for answered in asyncio.as_completed(clicks):
            refused.append((await answered).status_code)
            if len(refused) == CLICKS - 1:
                bank.set()  # the one that is left is at the bank
        later = await click(servers[0])
    print(f"{CLICKS} clicks at once: {refused}; one click later: {later.status_code} {later.text}")
    print(f"the card was charged {len(charges)} time(s)")
    return refused == [409] * (CLICKS - 1) + [200] and later.is_success and len(charges) == 1


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        good = asyncio.run(shop(os.environ.get("LOCKNUT_URL") or f"file://{folder}"))
    if not good:
        sys.exit("NOT proved")
    print("Proved: six clicks on two servers, one charge.")


if __name__ == "__main__":
    main()
