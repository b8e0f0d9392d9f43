"""What belongs to one thread or task: its leases, and the identity by which others know it.

Host, process number and name are for people: numbers are used again and differ between containers,
and names repeat. So an identity stands before the name that every engine stores with a claim:

    @k3x9f2m7aq.12 thread MainThread

Ten random characters name the process (a forked child has others), the number the thread or task.
With `!` in place of `@` the claim's owner takes part in breaking deadlocks: if it waits in one, it
may be the one that gets DeadlockDetected. What has no identity (other people's clients, older
versions) is shown, and never taken for a part of a deadlock.

An identity is used up when a hold that is stored under it goes to somebody else, by a hand-over
inside the process or by `detach`: see `Caller.pass_identity`, docs/decisions/0026-identities.md.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from locknut.core.values import Holder, LockInfo

if TYPE_CHECKING:
    from locknut.core.holding import LeaseCore

KNOWN: Final = "@"
BREAKS: Final = "!"
LETTERS: Final = "abcdefghijkmnpqrstuvwxyz23456789"
"""Thirty-two that nobody mistakes for each other."""
PROCESS: Final = 10


def nobody() -> None:
    """Return None, as a weak reference does that is dead. It stands for the lease of a hold that
    has none (between the two of a hand-over), and for the task of a thread.
    """


class Caller(dict[object, Any]):
    """What belongs to one thread or task. It keeps its leases; they refer to it weakly, so that a
    thread that ends without releasing lets them go at once (L11).
    """

    __slots__ = ("__weakref__", "_new_party", "_party", "signed", "task", "weakly", "who")

    def __init__(
        self, who: str, task: Callable[[], Any] = nobody, new_party: Callable[[], str] = str
    ):
        self.who = who
        """The thread or task, for people."""
        self._new_party = new_party
        self._party = self.signed = ""
        """The identity, and what claims carry: made when they are needed, and kept."""
        self.task = task
        """On a loop: the task, weakly."""
        self.weakly = weakref.ref(self)

    def leases(self) -> list[LeaseCore]:
        """What it holds, each once. The faces keep other things here, whose keys are not texts."""
        found: dict[LeaseCore, None] = {}
        for slot, kept in self.copy().items():
            if isinstance(slot, str):
                for each in kept if isinstance(kept, list) else (kept,):
                    lease = each[1] if isinstance(each, tuple) else each  # `all` keeps the order
                    if lease._ended is None:
                        found[lease] = None
        return list(found)

    @property
    def party(self) -> str:
        """The identity; empty where there are none."""
        if not self._party:
            self.sign()
        return self._party

    def sign(self) -> str:
        """Make what claims carry, with a new identity if there is none."""
        party = self._party or self._new_party()
        signed = signed_by(party, self.who)
        self._party, self.signed = party, signed  # an interrupt cannot part them
        return signed

    def pass_identity(self, heir: Caller | None = None) -> None:
        """What the engine knows under our identity, a hold or a place in line, is the heir's now.

        The heir takes the identity over if neither of the two holds anything else: others then see
        right. If one does, nobody has the identity any more, and what else is stored under it seems
        to be nobody's: others may miss a deadlock, but see none that is not there.
        """
        former = self._party
        self._party = self.signed = ""  # first: never two at a time, whatever interrupts us
        if heir is not None and not (self and self.leases()) and not (heir and heir.leases()):
            heir.inherit(former)

    def inherit(self, party: str) -> None:
        """Have this identity from now on."""
        self._party, self.signed = party, ""


class Signature(NamedTuple):
    """What the name of a claim's thread or task says."""

    id: str
    """Empty if it has no identity."""
    breaks: bool
    who: str


def process_id(chance: bytes) -> str:
    """Make the name of a process from ten random bytes."""
    return "".join(LETTERS[each % len(LETTERS)] for each in chance[:PROCESS])


def signed_by(party: str, who: str) -> str:
    """Return what claims carry: the identity and the name."""
    return f"{KNOWN}{party} {who}" if party else who


def breaking(text: str) -> str:
    """Return the same for a claim whose owner takes part in breaking deadlocks."""
    return BREAKS + text[1:] if text.startswith(KNOWN) else text


def read(text: str) -> Signature:
    """Take it apart again; anybody may have written it."""
    if text[:1] in {KNOWN, BREAKS}:
        party, _, who = text[1:].partition(" ")
        process, dot, serial = party.partition(".")
        if len(process) == PROCESS and dot and serial.isdecimal() and serial.isascii():
            return Signature(party, text[0] == BREAKS, who)
    return Signature("", False, text)


def shown(info: LockInfo) -> LockInfo:
    """Return what an engine says with the identities beside the names, where they were in front."""
    holders, waiters = tuple(map(_known, info.holders)), tuple(map(_known, info.waiters))
    if info.details:
        details = [each._replace(holders=tuple(map(_known, each.holders))) for each in info.details]
        return info._replace(holders=holders, waiters=waiters, details=tuple(details))
    return info._replace(holders=holders, waiters=waiters)


def _known(holder: Holder) -> Holder:
    found = read(holder.who)
    if not found.id:
        return holder
    return holder._replace(who=found.who, party=found.id, breaks=found.breaks)
