"""The Redis engine: locks between machines, kept by a Redis or Valkey server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from locknut.errors import ConfigurationError

if TYPE_CHECKING:
    from locknut.core.ports import Engine
    from locknut.urls import Url

__all__ = ["from_client", "open_engine"]


def open_engine(url: Url) -> Engine:
    """`redis://`, `rediss://` (TLS), `redis+unix://`, `redis+sentinel://`, `redis+cluster://`."""
    try:
        from locknut.backends.redis.engine import open_url
    except ImportError as error:
        raise _not_installed(f"{url.scheme}: URLs need", error) from error
    return open_url(url)


def from_client(client: Any, layout: str = "") -> Engine:
    """The same for a client that the user has: `redis.Redis(...)`, blocking or for asyncio."""
    try:
        from locknut.backends.redis import engine
    except ImportError as error:
        raise _not_installed("locks on a client of redis-py need", error) from error
    return engine.from_client(client, layout)


def _not_installed(what: str, error: ImportError) -> ConfigurationError:
    message = (
        f"{what} a driver that is not installed ({error.name}); "
        'get it with: pip install "hiredis>=3.2"'
    )
    return ConfigurationError(message, backend="redis")
