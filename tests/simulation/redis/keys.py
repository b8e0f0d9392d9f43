"""What a Redis server keeps: values of four types under keys, each of which may run out."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any, TypeVar

T = TypeVar("T")


class Refused(Exception):
    """The server's answer is an error."""


class ZSet(dict[bytes, float]):
    """Member to score."""

    def ordered(self) -> list[tuple[bytes, float]]:
        return sorted(self.items(), key=lambda item: (item[1], item[0]))


class Hash(dict[bytes, bytes]):
    """Field to value."""


class List(list[bytes]):
    """In order."""


TYPES: dict[type, str] = {bytes: "string", ZSet: "zset", Hash: "hash", List: "list"}
WRONG_TYPE = "WRONGTYPE Operation against a key holding the wrong kind of value"


class Keys:
    """One database. A key that has run out is gone for whoever looks."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self.clock = clock
        """Microseconds since the epoch, by the server's own clock."""
        self._values: dict[bytes, Any] = {}
        self._ends: dict[bytes, int] = {}

    @property
    def now(self) -> int:
        return self.clock() // 1000

    def names(self) -> list[bytes]:
        return [name for name in list(self._values) if self.has(name)]

    def has(self, name: bytes) -> bool:
        end = self._ends.get(name)
        if end is not None and self.now > end:
            self.drop(name)
        return name in self._values

    def find(self, name: bytes, kind: type[T]) -> T | None:
        """The value, if there is one; of another type it is an error, as on a real server."""
        if not self.has(name):
            return None
        value = self._values[name]
        if type(value) is not kind:
            raise Refused(WRONG_TYPE)
        return value

    def make(self, name: bytes, kind: type[T]) -> T:
        found = self.find(name, kind)
        if found is None:
            found = self._values[name] = kind()
        return found

    def put(self, name: bytes, value: bytes, end: int | None = None) -> None:
        self._values[name] = value
        self._ends.pop(name, None)
        if end is not None:
            self._ends[name] = end

    def change(self, name: bytes, value: bytes) -> None:
        """Another string, which runs out when the old one would have."""
        self._values[name] = value

    def drop(self, name: bytes) -> None:
        self._values.pop(name, None)
        self._ends.pop(name, None)

    def tidy(self, name: bytes) -> None:
        """What is empty is not there."""
        if not self._values.get(name, True):
            self.drop(name)

    def end(self, name: bytes) -> int | None:
        """The millisecond after which it is gone; None: never."""
        return self._ends.get(name)

    def end_at(self, name: bytes, end: int) -> None:
        if end <= self.now:
            self.drop(name)
        else:
            self._ends[name] = end

    def kind(self, name: bytes) -> str:
        return TYPES[type(self._values[name])] if self.has(name) else "none"

    def copied(self) -> Callable[[], None]:
        """How to bring everything back as it is now."""
        values, ends = deepcopy(self._values), dict(self._ends)

        def bring_back() -> None:
            self._values, self._ends = deepcopy(values), dict(ends)

        return bring_back

    def take_from(self, other: Keys) -> None:
        """Have what another server has."""
        self._values, self._ends = deepcopy(other._values), dict(other._ends)

    def clear(self) -> None:
        self._values.clear()
        self._ends.clear()
