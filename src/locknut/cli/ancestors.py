"""Whether an ancestor of this process already holds the lock: then waiting would never end.

LOCKNUT_HELD lists what the ancestors hold, as name#fence with colons between (in names, `%`, `:`
and `#` are percent-encoded). The fence is looked up in the engine before anything is refused: it
tells an ancestor's hold from a lock of the same name elsewhere, and from a hold that has ended
while this process lived on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from locknut import DeadlockDetected

if TYPE_CHECKING:
    from collections.abc import Iterator

    from locknut import Locks

VARIABLE = "LOCKNUT_HELD"
_SPECIAL = "%:#"


def refuse_reentry(locks: Locks, name: str, held: str) -> None:
    """Raise if one of the ancestors holds this very lock."""
    fences = [fence for known, fence in _entries(held) if known == name]
    if not fences:
        return
    holding = {holder.fence for holder in locks.info(name).holders}
    if not holding.isdisjoint(fences):
        message = (
            "an outer `locknut run` already holds this lock around this command, waiting for it "
            "would never end; run the inner command without `locknut run`, or under another name"
        )
        raise DeadlockDetected(message, key=name, backend=locks.backend)


def with_entry(held: str, name: str, fence: int) -> str:
    """The list for the child: what the ancestors hold, and this."""
    entry = f"{_escaped(name)}#{fence}"
    return f"{held}:{entry}" if held else entry


def _entries(held: str) -> Iterator[tuple[str, int]]:
    for entry in held.split(":"):
        name, _, fence = entry.rpartition("#")
        if name and fence.isdecimal():
            yield _plain(name), int(fence)


def _escaped(name: str) -> str:
    for character in _SPECIAL:  # the percent sign first
        name = name.replace(character, f"%{ord(character):02X}")
    return name


def _plain(name: str) -> str:
    for character in reversed(_SPECIAL):
        name = name.replace(f"%{ord(character):02X}", character)
    return name
