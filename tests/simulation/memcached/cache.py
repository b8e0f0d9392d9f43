"""The commands of memcached that the engine sends, in plain Python: a reference to compare with.

Time goes in whole seconds, and an item is gone when its second has come: so it lives for up to a
second less than was asked for. CAS ids are counted for all items together, from 1.
"""

from __future__ import annotations

from typing import NamedTuple


class Stored(NamedTuple):
    """One item."""

    value: bytes
    cas: int
    ends: int
    """The second in which it is gone."""
    stub: bool = False
    """Whether a look made it, and nobody has put a value there yet."""


class Cache:
    """What one instance of the server has."""

    def __init__(self) -> None:
        self.items: dict[bytes, Stored] = {}
        self.last = 0
        """The greatest CAS id."""

    def run(self, packed: bytes, second: int, start: int = 0) -> bytes:
        """The answer to one command, in this second of a server that was started then."""
        line, _, rest = packed.partition(b"\r\n")
        verb, key, *flags = line.split(b" ")
        found = self.items.get(key)
        if found is not None and found.ends <= second:
            del self.items[key]
            found = None
        if verb == b"ms":
            size, *flags = flags
            ends = _end(_number(flags, b"T") or 0, second, start)
            return self._set(key, rest[: int(size)], flags, found, ends)
        if verb == b"md":
            return self._delete(key, flags, found)
        lasting = _number(flags, b"N")
        if found is None and lasting is not None:
            return self._make(key, flags, second + lasting)
        touched = _number(flags, b"T")
        if found is not None and touched is not None:
            # Whatever is there: no CAS id keeps it from that.
            found = self.items[key] = found._replace(ends=_end(touched, second, start))
        return self._get(flags, found, second)

    def _set(
        self, key: bytes, value: bytes, flags: list[bytes], found: Stored | None, ends: int
    ) -> bytes:
        wanted = _number(flags, b"C")
        if wanted is not None and found is None:
            return b"NF\r\n"
        if wanted is not None and found is not None and found.cas != wanted:
            return b"EX\r\n"
        if b"ME" in flags and found is not None:
            return b"NS\r\n"
        self.last += 1
        self.items[key] = Stored(value, self.last, ends)
        return b"HD c%d\r\n" % self.last if b"c" in flags else b"HD\r\n"

    def _delete(self, key: bytes, flags: list[bytes], found: Stored | None) -> bytes:
        wanted = _number(flags, b"C")
        if found is None:
            return b"NF\r\n"
        if wanted is not None and found.cas != wanted:
            return b"EX\r\n"
        del self.items[key]
        return b"HD\r\n"

    def _make(self, key: bytes, flags: list[bytes], ends: int) -> bytes:
        """An empty one; whoever made it is told so, and no time to live."""
        self.last += 1
        made = self.items[key] = Stored(b"", self.last, ends, stub=True)
        return self._get(flags, made, ends + 1, b" W")

    def _get(
        self, flags: list[bytes], found: Stored | None, second: int, stub: bytes = b" Z"
    ) -> bytes:
        if found is None:
            return b"EN\r\n"
        told = {b"c": b" c%d" % found.cas, b"t": b" t%d" % (found.ends - second)}
        words = b"".join(told[flag] for flag in flags if flag in told)
        words += stub if found.stub else b""
        if b"v" not in flags:
            return b"HD%b\r\n" % words
        return b"VA %d%b\r\n%b\r\n" % (len(found.value), words, found.value)


def _end(given: int, second: int, start: int) -> int:
    """What is more than 30 days is a moment, in seconds since the epoch."""
    return given - start if given > 30 * 86400 else second + given


def _number(flags: list[bytes], letter: bytes) -> int | None:
    return next((int(flag[1:]) for flag in flags if flag[:1] == letter and flag[1:]), None)
