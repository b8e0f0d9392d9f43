"""Redlock: locks kept by a majority of independent Redis masters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from locknut.errors import ConfigurationError

if TYPE_CHECKING:
    from locknut.backends.redlock.engine import RedlockEngine
    from locknut.urls import Url

__all__ = ["open_engine", "open_nodes"]


def open_engine(url: Url) -> RedlockEngine:
    """`redlock://h1:6379,h2:6379,h3:6379`, or `redlocks://` with TLS."""
    opened: RedlockEngine = _engine().open_url(url)
    return opened


def open_nodes(urls: Sequence[Url], options: dict[str, str]) -> RedlockEngine:
    """Open an engine from one URL per node."""
    opened: RedlockEngine = _engine().open_urls(urls, options)
    return opened


def _engine() -> Any:
    try:
        from locknut.backends.redlock import engine
    except ImportError as error:
        message = (
            f"redlock: needs a driver that is not installed ({error.name}); "
            'get it with: pip install "hiredis>=3.2"'
        )
        raise ConfigurationError(message, backend="redlock") from error
    return engine
