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


THROUGH_LEADER: Final = frozenset(
    {
        serialization.Sync.type,
        serialization.Create2.type,
        CreateContainer.type,
        serialization.Delete.type,
        serialization.SetData.type,
        serialization.Transaction.type,
    }
)
"""Requests that are only answered once the leader had them."""
_NONE: Final = -1


class Batch:
    """For kazoo it is where to leave an answer. Answers come in order, so the last is the end."""

    __slots__ = ("_done", "_proof", "_proving", "_size", "answers", "failed", "sent")

    def __init__(self, requests: Sequence[Any], proof: Proof, done: Callable[[Batch], None]):
        self.answers: list[Any] = []
        self.failed = False
        """Whether an error is among the answers."""
        self.sent = now()
        self._size = len(requests)
        self._done = done
        self._proof = proof
        self._proving = _NONE
        """The first request whose answer is the leader's word."""
        for at, request in enumerate(requests):
            if request.type in THROUGH_LEADER:
                self._proving = at
                break
        proof.sent(self.sent, through_leader=self._proving != _NONE)

    def set(self, value: Any) -> None:
        answers = self.answers
        if len(answers) == self._proving:
            self._proof.answered(self.sent)
        answers.append(value)
        if len(answers) == self._size:
            self._done(self)

    def set_exception(self, error: Exception) -> None:
        self.failed = True
        self.answers.append(error)
        if len(self.answers) == self._size:
            self._done(self)
