"""A request from one end to the other: to which member, as whom, and what its answer means.

Both colours go this way; how a connection is had and waited for is theirs.
"""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from locknut.drivers.etcd import grpc_errors
from locknut.drivers.etcd import rpc_messages as messages
from locknut.drivers.etcd.calls import Answer
from locknut.drivers.etcd.key_watcher import Watcher
from locknut.drivers.etcd.members import Members, Turn
from locknut.drivers.etcd.requests import Compare, Event, Lease, LeaseGone, Operation, Reply, Watch
from locknut.drivers.etcd.settings import Settings
from locknut.errors import LocknutError

A = TypeVar("A", Reply, Lease, bool, bytes)


class Connected(Protocol):
    """A connection, as far as this file knows it."""

    turn: Turn

    @property
    def greeted(self) -> bool:
        """Whether the other side has ever answered."""


C = TypeVar("C", bound=Connected)


class NotSent(TimeoutError):
    """The caller's time was over before anything was sent: nobody was silent."""


class BaseLink(ABC, Generic[C]):
    """`Link`, but for the ways of a colour."""

    def __init__(self, settings: Settings, members: Members):
        self.settings = settings
        self.members = members
        self.watcher = Watcher(settings, members)
        weakref.finalize(self, self.watcher.stop).atexit = False

    # What each colour does in its way.

    @abstractmethod
    async def connected(self) -> C:
        """A connection to the member that is asked now; OSError if none can be had."""

    @abstractmethod
    async def call(self, connection: C, head: bytes, message: bytes) -> tuple[Answer, float]:
        """The answer, with its status, and when it was asked for; OSError or ValueError."""

    @abstractmethod
    async def log_in(self, connection: C) -> None:
        """See to it that there is a ticket: by `log_in_by`, one caller for all."""

    @abstractmethod
    def give_back(self, connection: C) -> None:
        """The next one may use it."""

    @abstractmethod
    def drop(self, connection: C, error: BaseException) -> None:
        """It is in doubt: nobody may use it any more."""

    # The port.

    async def transact(
        self,
        compares: Sequence[Compare],
        then: Sequence[Operation],
        otherwise: Sequence[Operation] = (),
    ) -> Reply:
        message = messages.transaction(compares, then, otherwise)
        return await self._ask(messages.TXN, message, messages.reply)

    async def grant(self, ttl: int, lease: int = 0) -> Lease:
        return await self._ask(messages.GRANT, messages.grant(ttl, lease), messages.lease)

    async def keep_alive(self, lease: int) -> Lease:
        return await self._ask(messages.KEEP_ALIVE, messages.of_lease(lease), messages.lease)

    async def revoke(self, lease: int) -> bool:
        try:
            return await self._ask(messages.REVOKE, messages.of_lease(lease), _done)
        except LeaseGone:
            return False

    async def report(self, path: str) -> bytes:
        """The answer to a question about the cluster that has no content, as it came."""
        return await self._ask(path, b"", _as_it_came)

    def watch(
        self,
        key: bytes,
        from_revision: int,
        on_event: Callable[[Event], None],
        *,
        end: bytes = b"",
    ) -> Watch:
        return self.watcher.watch(key, end, from_revision, on_event)

    def move_on(self, member: int) -> None:
        self.members.move_on(member)

    @property
    def inside(self) -> Callable[[], bool]:
        """A thread that is in a command has a connection of its own, and waits for nobody: only in
        the middle of beginning or ending a watch nothing may be changed.
        """
        return self.watcher.guard.inside

    def forked(self) -> None:
        self.members.forked()
        self.watcher.forked()

    # On the way.

    async def _ask(self, path: str, message: bytes, understand: Callable[[bytes, float], A]) -> A:
        """Sent once; again only where it was surely not done."""
        status, text = 0, ""
        for _ in range(len(self.members.hosts) + 1):
            connection = await self._reach()
            ticket = self.members.ticket
            if ticket is None:
                ticket = await self._logged_in(connection)
            head = self.members.head(path, connection.turn.host, ticket)
            answer, sent = await self._sent(connection, head, message)
            status, text = answer.status or 0, answer.text
            if status == grpc_errors.OK:
                return self._understood(connection, answer.body, sent, understand)
            if grpc_errors.elsewhere(status):
                self.members.leave(connection.turn)
            self.give_back(connection)
            again = grpc_errors.untouched(status, text)
            if grpc_errors.logged_out(status, text):
                again = self.members.logged_out(ticket)
            if not again:
                break
        raise grpc_errors.failed(self.settings, status, text)

    async def _reach(self) -> C:
        try:
            return await self.connected()
        except (OSError, ValueError) as error:
            raise grpc_errors.unreachable(self.settings, error) from error

    async def _logged_in(self, connection: C) -> bytes:
        """The ticket that goes with a request; empty if none is wanted."""
        while (ticket := self.members.ticket) is None:
            try:
                await self.log_in(connection)
            except (OSError, ValueError) as error:
                self.drop(connection, error)
                raise grpc_errors.unreachable(self.settings, error) from error
            except BaseException as error:
                self.drop(connection, error)
                raise
        return ticket

    async def log_in_by(self, connection: C) -> None:
        """Ask for a ticket. Nothing is left behind by that, whatever becomes of it."""
        settings = self.settings
        message = messages.login(settings.username, settings.password)
        head = self.members.head(messages.AUTHENTICATE, connection.turn.host, b"")
        answer, _ = await self.call(connection, head, message)
        if grpc_errors.elsewhere(answer.status or 0):
            self.members.leave(connection.turn)
        self.members.ticket = grpc_errors.ticket(settings, answer)

    async def _sent(self, connection: C, head: bytes, message: bytes) -> tuple[Answer, float]:
        try:
            return await self.call(connection, head, message)
        except (OSError, ValueError) as error:
            raise self._in_doubt(connection, error) from error
        except BaseException as error:
            self.drop(connection, error)
            raise

    def _in_doubt(self, connection: C, error: Exception) -> LocknutError:
        if not connection.greeted:
            grpc_errors.doubt(self.settings, error)
        self.drop(connection, error)
        if not isinstance(error, NotSent):
            self.members.leave(connection.turn)
        return grpc_errors.unreachable(self.settings, error)

    def _understood(
        self,
        connection: C,
        body: bytes | None,
        sent: float,
        understand: Callable[[bytes, float], A],
    ) -> A:
        try:
            if body is None:
                raise ValueError("a success that says nothing")
            found = understand(body, sent)
        except ValueError as error:
            raise self._in_doubt(connection, error) from error
        if not isinstance(found, bool | bytes):
            self.members.answered(connection.turn, found.member)
        self.give_back(connection)
        return found


def _done(_: bytes, __: float) -> bool:
    """The answer says nothing but that."""
    return True


def _as_it_came(body: bytes, _: float) -> bytes:
    return bytes(body)
