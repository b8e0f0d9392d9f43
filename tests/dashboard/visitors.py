"""A visitor without a browser: asks an ASGI application, and keeps its cookies."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx


class Visitor:
    """Follows where it is led, unless it is told not to."""

    def __init__(self, application: Any, headers: dict[str, str] | None = None) -> None:
        self.dashboard = application
        self._client = httpx.AsyncClient(
            transport=httpx.ASGITransport(app=application),
            base_url="http://localhost:8437",
            headers=headers,
            follow_redirects=True,
        )

    @property
    def cookies(self) -> httpx.Cookies:
        return self._client.cookies

    def get(self, path: str, **options: Any) -> httpx.Response:
        return asyncio.run(self._client.get(path, **options))

    def post(self, path: str, **options: Any) -> httpx.Response:
        return asyncio.run(self._client.post(path, **options))
