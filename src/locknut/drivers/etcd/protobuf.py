"""The few parts of protobuf that etcd's messages are made of: numbers, bytes, and fields of both.

Written here because the usual library is bound to code that is generated for its version.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

Field = tuple[int, int | bytes]
"""Its number in the message, and what it says."""
_VARINT: Final = 0
_BYTES: Final = 2
_FIXED: Final = {1: 8, 5: 4}
_LONGEST: Final = 70
"""Bits of the longest number, in steps of seven."""


def varint(number: int) -> bytes:
    """A whole number; a negative one counts as its 64 bits."""
    return _SMALL[number] if 0 <= number < 128 else _long(number)


@lru_cache(1024)
def _long(number: int) -> bytes:
    """Kept, because most are the id of a lease that comes again and again."""
    number &= 0xFFFFFFFFFFFFFFFF
    packed = bytearray()
    while number > 127:
        packed.append(number & 127 | 128)
        number >>= 7
    packed.append(number)
    return bytes(packed)


_SMALL: Final = tuple(bytes([each]) for each in range(128))


def number(field: int, value: int) -> bytes:
    """A field that is left out where it is 0, as protobuf does."""
    if not value:
        return b""
    if field < 16:
        return _SMALL[field << 3] + (_SMALL[value] if 0 < value < 128 else varint(value))
    return varint(field << 3) + varint(value)


def text(field: int, value: bytes) -> bytes:
    """The same for bytes: left out where there are none."""
    size = len(value)
    if field < 16 and 0 < size < 128:  # as `inner`, in place
        return _SMALL[field << 3 | _BYTES] + _SMALL[size] + value
    return inner(field, value) if value else b""


def inner(field: int, message: bytes) -> bytes:
    """A message within a message, also if it is empty."""
    size = len(message)
    if field < 16 and size < 128:
        return _SMALL[field << 3 | _BYTES] + _SMALL[size] + message
    return varint(field << 3 | _BYTES) + varint(size) + message


def fields(message: bytes) -> list[Field]:
    """Each field of a message. ValueError, if it is none."""
    found: list[Field] = []
    at, end = 0, len(message)
    try:
        while at < end:
            key = message[at]
            value = message[at + 1]
            at += 2
            if key > 127:
                key, at = _rest(message, at - 1, key)
                value = message[at]
                at += 1
            kind = key & 7
            if kind in _FIXED:
                at += _FIXED[kind] - 1  # etcd has none of these; a later one may
                continue
            if value > 127:
                value, at = _rest(message, at, value)
            if kind == _VARINT:
                found.append((key >> 3, value))
            elif kind == _BYTES and at + value <= end:
                found.append((key >> 3, message[at : at + value]))
                at += value
            else:
                raise ValueError("a message that is cut short")
    except IndexError:
        raise ValueError("a message that is cut short") from None
    return found


def _rest(message: bytes, at: int, first: int) -> tuple[int, int]:
    """A number of more than seven bits, and where it ends."""
    value, shift = first & 127, 7
    while True:
        byte = message[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
        if shift >= _LONGEST:
            raise ValueError("a number that is too long")


def signed(value: int) -> int:
    """A number of 64 bits, as one that may be negative."""
    return value - (1 << 64) if value >= 1 << 63 else value
