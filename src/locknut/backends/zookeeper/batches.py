"""Requests that are sent together, and where their answers are left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from kazoo.protocol import serialization

from locknut.backends.zookeeper.proving import Proof
from locknut.runtimes.clock import now


class CreateContainer(serialization.Create2):  # type: ignore[misc]  # kazoo has no types
    """A node that the server removes once its last child is gone."""

    type = 19


PROVING: Final = serialization.Transaction((serialization.CheckVersion("/", -1),))
"""A write that changes nothing: what it is for is that a majority accepts it. That is so as well
where we may not look at the node: a transaction that fails is logged like any other.
"""
MAJORITY: Final = frozenset(
    {
        serialization.Create2.type,
        CreateContainer.type,
        serialization.Delete.type,
        serialization.SetData.type,
        serialization.Transaction.type,
    }
)
"""Requests that are answered once a majority has accepted them."""
THROUGH_LEADER: Final = MAJORITY | {serialization.Sync.type}
"""Requests that are answered once the leader had them: a leader of the past, perhaps."""
_NONE: Final = -1


class Batch:
    """For kazoo it is where to leave an answer. Answers come in order, so the last is the end."""

    __slots__ = ("_done", "_majority", "_proof", "_proving", "_size", "answers", "failed", "sent")

    def __init__(self, requests: Sequence[Any], proof: Proof, done: Callable[[Batch], None]):
        self.answers: list[Any] = []
        self.failed = False
        """Whether an error is among the answers."""
        self.sent = now()
        self._size = len(requests)
        self._done = done
        self._proof = proof
        self._proving = _NONE
        """The first request whose answer proves something of the session's life."""
        self._majority = False
        for at, request in enumerate(requests):
            if request.type in THROUGH_LEADER:
                self._proving, self._majority = at, request.type in MAJORITY
                break

    def set(self, value: Any) -> None:
        answers = self.answers
        if not answers:
            self._proof.touched(self.sent, now())
        if len(answers) == self._proving:
            self._proof.answered(self.sent, now(), majority=self._majority)
        answers.append(value)
        if len(answers) == self._size:
            self._done(self)

    def set_exception(self, error: Exception) -> None:
        self.failed = True
        self.answers.append(error)
        if len(self.answers) == self._size:
            self._done(self)
