"""The family of a lock's name: what the names that one line of a program makes have in common.

`invoice:41` and `invoice:42` are both of the family `invoice:*`. Metrics are labelled with it, and
the lock-order check compares families. The rule, which needs nothing but the name:

1. A name has parts, with `:` or `/` between them.
2. The last part of several tells the one from the other, so it becomes `*`: `user:ann` is `user:*`.
3. So does a part between the first and the last that has a digit or is long: `shop:7:cart:12` is
   `shop:*:cart:*`.
4. In the first part, or in a name of one part, each number becomes `*`: `worker-12` is `worker-*`.
   So does the whole part if it is an id: a UUID, or 16 or more hexadecimal digits.
5. Of more than four parts, everything from the fourth on is one `*`; and a family has no more than
   64 characters.

A template is of the same family as the names it makes: `user:{id}`. No rule can know that
`lock-ann` and `lock-bob` belong together: `Families` bounds how many there are.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

ANY: Final = "*"
MOST_PARTS: Final = 4
MOST_CHARACTERS: Final = 64
_LONG: Final = 24
"""Characters. Words that people choose for a part are shorter."""
_PARTS: Final = re.compile(r"([:/])")
_NUMBER: Final = re.compile(r"\d+")
_FIELD: Final = re.compile(r"\{[^{}]*\}")
_ID: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|[0-9a-fA-F]{16,}")


@lru_cache(maxsize=4096)
def family(name: str) -> str:
    """Return the family of a name, as the rule above says."""
    if "{" in name:
        name = _FIELD.sub("0", name)  # the field of a template stands for something that varies
    first, *others = _PARTS.split(name)  # separators and parts in turn
    parts, between = [_first(first)], others[::2]
    inner = others[1::2][:-1]
    parts += [ANY if _varies(each) else each for each in inner]
    parts += [ANY] * bool(others)
    if len(parts) > MOST_PARTS:
        parts = [*parts[: MOST_PARTS - 1], ANY]
    text = parts[0]
    for separator, part in zip(between, parts[1:], strict=False):
        text += separator + part
    return text if len(text) <= MOST_CHARACTERS else text[: MOST_CHARACTERS - 1] + ANY


def _first(part: str) -> str:
    return ANY if _ID.fullmatch(part) else _NUMBER.sub(ANY, part)


def _varies(part: str) -> bool:
    return len(part) >= _LONG or _NUMBER.search(part) is not None


class Families:
    """The families that were seen, up to a bound: whatever comes after that is of the family `*`.

    A label of a metric must not grow without end, whatever names a program makes up.
    """

    __slots__ = ("_most", "_seen")

    def __init__(self, most: int = 200):
        self._most = most
        self._seen: set[str] = set()

    def __call__(self, name: str) -> str:
        found = family(name)
        if found in self._seen:
            return found
        if len(self._seen) >= self._most:
            return ANY
        self._seen.add(found)  # two threads may pass the bound by one each: no harm
        return found
