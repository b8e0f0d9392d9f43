"""BLAKE2b, without all the rest of `hashlib`.

`hashlib` loads OpenSSL, which takes as long as everything else that a short `locknut run` imports
from the standard library. Its BLAKE2b comes from CPython's own module `_blake2` in any case; where
an interpreter has no module of that name, `hashlib` knows where it is.
"""

from __future__ import annotations

try:
    from _blake2 import blake2b
except ImportError:
    from hashlib import blake2b

__all__ = ["blake2b"]
