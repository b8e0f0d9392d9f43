"""Asking the servers: requests that are sent together, their answers, and what an error means.

A `Batch` collects the answers to the requests that were sent in one go. Whatever it hears from the
servers also proves something about the life of the session (`session_proof`). `Asker` is what every
command of the backend is made of: send several requests, wait once, and sort the answers.
"""

from __future__ import annotations

import json
import os
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from kazoo.exceptions import (
    AuthFailedError,
    ConnectionLoss,
    KazooException,
    NoAuthError,
    OperationTimeoutError,
    SessionExpiredError,
    SessionMovedError,
)
from kazoo.protocol import serialization
from kazoo.protocol.serialization import GetChildren, Transaction

from locknut.backends.zookeeper import node_names
from locknut.backends.zookeeper.node_names import Node
from locknut.core.values import Claim
from locknut.errors import BackendError, BackendUnavailable

if TYPE_CHECKING:
    from locknut.backends.zookeeper.session import Session
    from locknut.backends.zookeeper.session_proof import Proof
    from locknut.core.ports import Runtime

EPHEMERAL: Final = 1
SEQUENCE: Final = 2
_CONTAINER: Final = 4
_UNANSWERED: Final = (
    ConnectionLoss,
    SessionExpiredError,
    SessionMovedError,
    OperationTimeoutError,
    AuthFailedError,
)


class CreateContainer(serialization.Create2):  # type: ignore[misc]  # kazoo has no types
    """A node that the server removes once its last child is gone."""

    type = 19


def plain(path: str, acl: Any) -> Any:
    return serialization.Create2(path, b"", acl, 0)


def container(path: str, acl: Any) -> CreateContainer:
    return CreateContainer(path, b"", acl, _CONTAINER)


PROVING: Final = serialization.Transaction((serialization.CheckVersion("/", -1),))
"""A write that changes nothing: it proves that a majority accepts our writes. That works even where
we may not read the node: a transaction that fails is logged like any other.
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
"""Requests that are answered once the leader had them; it may be a leader of the past."""
_NONE: Final = -1


class Batch:
    """Where kazoo leaves the answers. They come in order, so the last one completes the batch."""

    __slots__ = (
        "_done",
        "_majority",
        "_now",
        "_proof",
        "_proving",
        "_size",
        "answers",
        "failed",
        "sent",
    )

    def __init__(
        self,
        requests: Sequence[Any],
        proof: Proof,
        done: Callable[[Batch], None],
        now: Callable[[], float],
    ):
        self.answers: list[Any] = []
        self.failed = False
        """Whether an error is among the answers."""
        self._now = now
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
            self._proof.touched(self.sent, self._now())
        if len(answers) == self._proving:
            self._proof.answered(self.sent, self._now(), majority=self._majority)
        answers.append(value)
        if len(answers) == self._size:
            self._done(self)

    def set_exception(self, error: Exception) -> None:
        self.failed = True
        self.answers.append(error)
        if len(self.answers) == self._size:
            self._done(self)


class Asker(ABC):
    """One colour's way to the servers."""

    def __init__(self, session: Session, runtime: Runtime):
        self.session = session
        self.now = runtime.now
        self.signal = runtime.signal
        self._host = socket.gethostname()
        self._shown: dict[tuple[str, str, str | None, int], bytes] = {}

    @abstractmethod
    def _until(self) -> float:
        """Until when a command that begins now may take; BackendUnavailable if there is no time."""

    async def ready(self) -> None:
        """Wait until there is a connection; BackendUnavailable where none came in time."""
        session = self.session
        if session.connected:
            return
        signal, until = self.signal(), self._until()
        session.when_connected(signal.notify)
        if session.closed or not await signal.wait(until) or session.unstarted:
            session.do_not_wait(signal.notify)
            raise self.unavailable()

    async def _exchange(self, requests: Sequence[Any]) -> Batch:
        """Send, and wait for all answers or errors; BackendUnavailable if some are late."""
        session = self.session
        if not session.connected:
            await self.ready()
        signal, until = self.signal(), self._until()
        batch = session.send(requests, lambda _: signal.notify())
        if not await signal.wait(until):
            raise self.unavailable()
        return batch

    async def ask(self, *requests: Any) -> list[Any]:
        """Send together and wait once. Raise if there was no answer; "no such node" is an
        answer.
        """
        batch = await self._exchange(requests)
        if batch.failed:
            self.refuse(batch.answers, *_UNANSWERED, NoAuthError)
        return batch.answers

    async def answers(self, requests: Sequence[Any]) -> list[Any]:
        """Do the same where nodes may belong to another user."""
        batch = await self._exchange(requests)
        self.refuse(batch.answers, *_UNANSWERED)
        return batch.answers

    def refuse(self, answers: Sequence[Any], *errors: type[Exception]) -> None:
        for answer in answers:
            if isinstance(answer, errors) and isinstance(answer, NoAuthError):
                message = "the servers do not allow it: the nodes belong to another user"
                raise BackendError(message, backend="zookeeper") from answer
            if isinstance(answer, errors):
                raise self.unavailable(answer) from answer

    def failed(self, error: Exception) -> BackendError:
        said = type(error).__name__ if isinstance(error, KazooException) else str(error)
        return BackendError(f"the servers refused it: {said}", backend="zookeeper")

    def not_made(self, folder: str, *, refused: bool) -> BackendError:
        """Say why the node of a lock is not there, however often we made it."""
        message = f"{folder} is removed as fast as it is made"
        if refused:
            user = self.session.settings.login.partition(":")[0]
            who = f"the user {user!r}" if user else "a client without a user"
            message = f"the servers do not allow {who} to make {folder}"
        return BackendError(message, backend="zookeeper")

    def unavailable(self, error: Exception | None = None) -> BackendUnavailable:
        address = self.session.settings.address
        why = f" ({type(error).__name__})" if error is not None else ""
        if self.session.unstarted:
            why = f" ({self.session.unstarted})"
        elif self.session.refused:
            why = " (the servers refused the user and password)"
        elif self.session.turned_away:
            why = (
                " (it closes new connections at once: it has too many from this address, see its"
                " maxClientCnxns, or it does not serve, as without a majority)"
            )
        return BackendUnavailable(f"no answer from {address}{why}", backend="zookeeper")

    async def line(self, *folders: str, fresh: bool = False) -> list[Node]:
        """Return who stands under these nodes; with `fresh`, including everything that happened
        anywhere before we asked, which only a majority knows.
        """
        first = [PROVING] if fresh else []
        answers = await self.ask(*first, *(GetChildren(each, None) for each in folders))
        return node_names.listed(answers[len(first) :])

    async def all_or_nothing(self, *operations: Any) -> bool:
        (results,) = await self.ask(Transaction(operations))
        if isinstance(results, Exception):
            return False
        return not any(isinstance(each, Exception) for each in results)

    async def make_folder(self, folder: str) -> bool:
        """The lock's node and what is above it; whether any of it was not allowed. Below the chroot
        the server removes them again, but not with kazoo's names: a `Lock` of kazoo's makes its
        node once and then relies on it.
        """
        root = self.session.settings.root
        acl = self.session.acl
        above = [root[:end] for end in range(1, len(root) + 1) if root[end : end + 1] in {"/", ""}]
        below = folder[len(root) :].strip("/").split("/")
        paths = [root + "/" + "/".join(below[: count + 1]) for count in range(len(below))]
        # It is not an error if a node exists already, or if we may not make it.
        missing = [plain(path, acl) for path in above]
        make = plain if self.session.settings.layout == "kazoo" else container
        answers = await self.answers([*missing, *(make(path, acl) for path in paths)])
        return any(isinstance(each, NoAuthError) for each in answers)

    def shown(self, claim: Claim, **more: Any) -> bytes:
        """Return what a node says of its claim, for people who inspect the lock."""
        who = claim.who, claim.label, claim.owner, claim.permits
        known = None if more else self._shown.get(who)
        if known is None:
            facts = {"host": self._host, "pid": os.getpid(), "who": claim.who}
            facts |= {"label": claim.label, "owner": claim.owner, "permits": claim.permits}
            known = json.dumps({**facts, **more}, separators=(",", ":")).encode()
            if not more:
                if len(self._shown) > 1000:
                    self._shown.clear()
                self._shown[who] = known
        return known


def facts_in(data: bytes | None) -> dict[str, Any]:
    """Return what a node says. Another client's data may be any text: then that is its label."""
    text = (data or b"").decode(errors="replace")
    try:
        facts = json.loads(text)
    except ValueError:
        facts = text
    return facts if isinstance(facts, dict) else {"label": text}
