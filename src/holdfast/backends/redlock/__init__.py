"""Redlock: locks kept by a majority of independent Redis masters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.errors import ConfigurationError

if TYPE_CHECKING:
    from holdfast.backends.redlock.engine import RedlockEngine
    from holdfast.connect import Url

__all__ = ["open_engine"]


def open_engine(url: Url) -> RedlockEngine:
    """`redlock://h1:6379,h2:6379,h3:6379`, or `redlocks://` with TLS."""
    try:
        from holdfast.backends.redlock.engine import open_url
    except ImportError as error:
        message = (
            f"{url.scheme}: URLs need a driver that is not installed ({error.name}); "
            'get it with: pip install "holdfast[redis]"'
        )
        raise ConfigurationError(message, backend="redlock") from error
    return open_url(url)
