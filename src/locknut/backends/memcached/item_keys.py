"""Under which key of the cache a lock is kept: readable where memcached allows it."""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from typing import Final
from urllib.parse import unquote_to_bytes

LONGEST: Final = 200
"""Bytes; memcached takes 250."""
_PLAIN: Final = re.compile(rb"[!-\"$-~]+")
"""Printable, without blanks, and without the # that stands before a hash."""
_KEPT: Final = 100


@lru_cache(maxsize=4096)
def key_of(name: str) -> bytes:
    """The same for the same name, and another for each other one."""
    encoded = name.encode()
    if len(encoded) <= LONGEST and _PLAIN.fullmatch(encoded):
        return encoded
    return _readable(encoded) + b"#" + hashlib.sha256(encoded).hexdigest().encode()


def _readable(encoded: bytes) -> bytes:
    return b"".join(_PLAIN.findall(encoded))[:_KEPT]


def dumped(text: bytes) -> bytes:
    """The key in a line of the server's dump, which shows it like a part of a URL."""
    return unquote_to_bytes(text.removeprefix(b"key="))


def may_begin(key: bytes, prefix: str) -> bool:
    """Whether this may be the key of a name that begins so: its item tells."""
    return key.startswith(_readable(prefix.encode()))
