"""Which file a key lives in: readable where it can be, hashed where it must be, never two for one.

Safe also where a file system folds case or normalizes Unicode: what is kept readable has neither.
"""

from __future__ import annotations

import re
from typing import Final

from locknut.backends.file.digests import blake2b
from locknut.backends.file.layout import KEY_ROOM, encode_key
from locknut.core.values import Mode
from locknut.errors import ConfigurationError

LOCKS: Final = ".lock"
SEMAPHORES: Final = ".permits"

_PLAIN = re.compile(r"[a-z0-9_:-][a-z0-9._:-]{0,119}", re.ASCII)
_UNREADABLE = re.compile(r"[^a-z0-9_=-]+", re.ASCII)
_READABLE = 60


def file_name(key: str, mode: Mode) -> str:
    """A lock and a semaphore of one name are different things, in different files."""
    return stem(key) + (SEMAPHORES if mode is Mode.PERMIT else LOCKS)


def stem(key: str) -> str:
    """`:` is written `=`, which is never plain; a hash is set off by `~`, which never is either."""
    readable = key.replace(":", "=")
    if _PLAIN.fullmatch(key):
        return readable
    data = encode_key(key)
    if len(data) > KEY_ROOM:
        message = f"name is too long: {len(data)} bytes, at most {KEY_ROOM} fit in a lock file"
        raise ConfigurationError(message, key=key[:60] + "...", backend="file")
    prefix = _UNREADABLE.sub("_", readable.lower())[:_READABLE]
    return f"{prefix}~{blake2b(data, digest_size=16).hexdigest()}"
