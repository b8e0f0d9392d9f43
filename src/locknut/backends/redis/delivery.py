"""How a claim that stands in line learns of its grant: the port. A colour has its own way.

A thread sleeps in BLPOP on an inbox (`inboxes.InboxDelivery`), a loop is pushed a message on its
connection (`aio.PushDelivery`). A delivery knows which claims wait, and nothing of verbs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from locknut.backends.redis.waiting_claims import WaitingClaim
from locknut.core.ports import Signal
from locknut.core.values import Answer, Busy, Claim, Notice


class Delivery(Protocol):
    """Tells claims of their grants."""

    waiting: dict[str, WaitingClaim]
    """Claims that stand in line, by id: from the answer "not yet" to the grant or release."""
    early: dict[str, tuple[bytes, float]]
    """Grants that were read in one piece with the answer "not yet", whose asker has yet to run:
    the message, and from when it counts."""
    crowded: set[str]
    """Locks that had to be waited for when they were asked for last, where that is of use."""
    sleeps_with_question: bool
    """Whether `ask_and_sleep` is to be used for those."""

    def reply_to(self, waiting: WaitingClaim | None) -> bytes:
        """Where the server shall tell of a grant, packed."""

    async def ask_and_sleep(self, claim: Claim, patience: float) -> Answer | None:
        """The first attempt for a lock that is crowded; None: just ask."""

    def signal(self, waiting: WaitingClaim, plain: Callable[[], Signal]) -> Signal:
        """What a caller in line sleeps on."""

    def ring(self, waiting: WaitingClaim) -> None:
        """Have it ask soon. A claim that asks every second by itself need not be rung."""

    def until_asked(self, waiting: WaitingClaim, busy: Busy, another_asks: bool) -> Busy:
        """For how long this claim may sleep after the answer "not yet"."""

    def listen(self, on_notice: Callable[[str | None, Notice], None]) -> None:
        """Call it with what is learned of holds without asking for it."""

    def close(self) -> None:
        """Deliver no more messages; a sleeper here that the core does not know wakes up."""

    def forked(self) -> None:
        """In a forked child: all claims are the parent's."""
