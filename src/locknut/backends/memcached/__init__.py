"""The memcached engine: locks in a cache, safe as far as a cache can be."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from locknut.backends.memcached.engine import MemcachedEngine
    from locknut.urls import Url

__all__ = ["open_engine"]


def open_engine(url: Url) -> MemcachedEngine:
    """`memcached://host:11211`, and `memcached+unix:///path`."""
    from locknut.backends.memcached.engine import MemcachedEngine
    from locknut.drivers.memcached import settings

    return MemcachedEngine(settings.read(url))
