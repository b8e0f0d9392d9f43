"""Locks that other people's clients know: their keys, in their form, at their names.

A layout says how a hold looks in the database. Locknut's own is the engine's default and lives in
the folder above; those in here are for sharing locks with Redisson and with redis-py.
"""

from __future__ import annotations

from typing import Final

from locknut.backends.redis.layouts.foreign_layout import Layout
from locknut.backends.redis.layouts.redis_py import REDIS_PY
from locknut.backends.redis.layouts.redisson import REDISSON

__all__ = ["FOREIGN", "Layout"]

FOREIGN: Final = {layout.name: layout for layout in (REDISSON, REDIS_PY)}
"""What `?layout=` may say, besides nothing."""
