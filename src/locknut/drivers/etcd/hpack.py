"""The heads of HTTP/2 messages (HPACK, RFC 7541): ours as plain text, the server's in any form.

We tell the server to remember no heads for us. So every block of it can be understood by itself,
and a block that was seen before means the same again: it is looked up, not decoded.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

Headers = dict[bytes, bytes]
_MOST_KEPT: Final = 64
"""Blocks: those of successes are always the same few."""
_STATUS: Final = 8
_STATUSES: Final = (b"200", b"204", b"206", b"304", b"400", b"404", b"500")
_STATIC: Final = 61
"""How many heads are known beforehand. Of those, only the statuses are of use for us."""

_LENGTHS: Final = (
    "isxxxxxxxtzxxzxxxxxxxxzxxxxxxxxxbffhibdgffdgdbbbaaabbbbbbbcdkbhfibcccccccccccccccccccc"
    "ccdcdioijbkabababbbaccbbbabcbaabccccckgjixprpprrrsrssssststtrstssssqrsrsstrqprrssqsrrt"
    "qrssqqrqsrssprrrsrrsvvporsruvvvwwvtuoqvwwvwtqqvvxwwwptpqrqqsrruuttvsvwvvwwwwwxwwwwwvz"
)
"""How many bits each byte's code has, from 5 (a) to 30 (z), and the end's. The codes themselves
follow from that: they are counted upwards, the short ones first."""


def packed(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """A block of heads that nobody need remember."""
    return b"".join(b"\0" + _string(name) + _string(value) for name, value in headers)


def _string(value: bytes) -> bytes:
    size = len(value)
    if size < 127:
        return bytes([size]) + value
    size -= 127
    prefix = bytearray([127])
    while size > 127:
        prefix.append(size & 127 | 128)
        size >>= 7
    prefix.append(size)
    return bytes(prefix) + value


class Heads:
    """Understands the blocks of one connection."""

    def __init__(self) -> None:
        self._seen: dict[bytes, Headers] = {}

    def unpack(self, block: bytes) -> Headers:
        """ValueError, if the block is not what we asked for."""
        found = self._seen.get(block)
        if found is None:
            try:
                found = _unpacked(block)
            except IndexError:
                raise ValueError("a block of heads that is cut short") from None
            if len(self._seen) < _MOST_KEPT:
                self._seen[block] = found
        return found


def _unpacked(block: bytes) -> Headers:
    found: Headers = {}
    at = 0
    while at < len(block):
        first = block[at]
        if first & 0x80:
            index, at = _integer(block, at, 7)
            name, value = _known(index)
        elif first & 0xE0 == 0x20:  # how much it will remember: nothing, as we asked
            size, at = _integer(block, at, 5)
            if size:
                raise ValueError("the server wants its heads remembered")
            continue
        else:
            index, at = _integer(block, at, 6 if first & 0x40 else 4)
            name = _known(index)[0]
            if not index:
                name, at = _text(block, at)
            value, at = _text(block, at)
        found[name] = value
    return found


def _known(index: int) -> tuple[bytes, bytes]:
    if index > _STATIC:
        raise ValueError("a head that was to be remembered")
    if _STATUS <= index < _STATUS + len(_STATUSES):
        return b":status", _STATUSES[index - _STATUS]
    return b"", b""


def _integer(block: bytes, at: int, bits: int) -> tuple[int, int]:
    most = (1 << bits) - 1
    value = block[at] & most
    at += 1
    if value < most:
        return value, at
    shift = 0
    while True:
        byte = block[at]
        at += 1
        value += (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at
        if shift > 28:
            raise ValueError("a number that is too long")


def _text(block: bytes, at: int) -> tuple[bytes, int]:
    by_code = block[at] & 0x80
    size, at = _integer(block, at, 7)
    value = block[at : at + size]
    if len(value) < size:
        raise IndexError
    return (_decoded(value) if by_code else value), at + size


def _codes() -> dict[tuple[int, int], int]:
    """Which byte a code of so many bits stands for; 256 is the end."""
    lengths = [ord(letter) - ord("a") + 5 for letter in _LENGTHS]
    codes: dict[tuple[int, int], int] = {}
    code, before = 0, 5
    for length, byte in sorted((length, byte) for byte, length in enumerate(lengths)):
        code <<= length - before
        codes[length, code] = byte
        code, before = code + 1, length
    return codes


_BYTE_OF: Final = _codes()


def _decoded(value: bytes) -> bytes:
    plain = bytearray()
    code = length = 0
    for byte in value:
        for shift in range(7, -1, -1):
            code, length = code << 1 | byte >> shift & 1, length + 1
            found = _BYTE_OF.get((length, code))
            if found is not None:
                plain.append(found)  # the end is never sent: 256 raises ValueError
                code = length = 0
    if length > 7 or code != (1 << length) - 1:
        raise ValueError("a text that ends within a code")
    return bytes(plain)
