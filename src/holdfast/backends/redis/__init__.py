"""The Redis engine: locks between machines, kept by a Redis or Valkey server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.errors import ConfigurationError

if TYPE_CHECKING:
    from holdfast.connect import Url
    from holdfast.core.ports import Engine

__all__ = ["open_engine"]


def open_engine(url: Url) -> Engine:
    """`redis://`, `rediss://` (TLS), `redis+unix://`, `redis+sentinel://`, `redis+cluster://`."""
    try:
        from holdfast.backends.redis.engine import open_url
    except ImportError as error:
        message = (
            f"{url.scheme}: URLs need a driver that is not installed ({error.name}); "
            'get it with: pip install "holdfast[redis]"'
        )
        raise ConfigurationError(message, backend="redis") from error
    return open_url(url)
