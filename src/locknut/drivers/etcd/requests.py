"""What can be asked of an etcd cluster, and what its answers are: the port of this driver.

A `Link` is made by each colour (`sync.BlockingLink`, `aio.LoopLink`) from `Settings` and from the
`Members`, which all links of an engine share. Every command is `async def` in both colours; the
blocking one ends in its first step. A command

* has a limit of its own, in the blocking colour also the deadline of the calling thread;
* is sent once: what was sent and not answered raises BackendUnavailable, its outcome is unknown,
  and the next command goes to another member. Only what was surely not done (no connection could be
  made, a login had run out) is tried again, at the next member or with a new login;
* raises BackendError if the cluster said no (LeaseGone if it was because of the lease of a put),
  ConfigurationError if the login or a right is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum, IntEnum
from functools import lru_cache
from typing import NamedTuple, Protocol

from locknut.errors import BackendError


class LeaseGone(BackendError):
    """Nothing was done: the lease of a put has run out, or was revoked."""


class KeyValue(NamedTuple):
    """A key as it stood at the revision of the answer; of a deleted one, as it stood before."""

    key: bytes
    value: bytes
    create_revision: int
    mod_revision: int
    version: int
    """How often it was put since its creation."""
    lease: int
    """0: it stays until it is deleted."""


class Target(IntEnum):
    """What a `Compare` looks at. The numbers are etcd's."""

    VERSION = 0
    CREATED = 1
    MODIFIED = 2
    VALUE = 3
    LEASE = 4


class Relation(IntEnum):
    """How it must stand to the operand. The numbers are etcd's."""

    EQUAL = 0
    GREATER = 1
    LESS = 2
    NOT_EQUAL = 3


class Compare(NamedTuple):
    """A condition of a transaction: on one key, or with `end` on each key of a range.

    A key that is not there has 0 for everything (a compare of its VALUE is false), and so has a
    range without keys.
    """

    key: bytes
    target: Target
    relation: Relation
    operand: int | bytes
    end: bytes = b""


def created(key: bytes, revision: int) -> Compare:
    """The key was created by this revision; 0: it is not there."""
    return Compare(key, Target.CREATED, Relation.EQUAL, revision)


def modified(key: bytes, revision: int) -> Compare:
    """The key was changed last by this revision; 0: it is not there."""
    return Compare(key, Target.MODIFIED, Relation.EQUAL, revision)


def leased(key: bytes, lease: int) -> Compare:
    """The key belongs to this lease."""
    return Compare(key, Target.LEASE, Relation.EQUAL, lease)


def says(key: bytes, value: bytes) -> Compare:
    """The key is there and has this value."""
    return Compare(key, Target.VALUE, Relation.EQUAL, value)


@lru_cache(1024)
def nobody_under(prefix: bytes) -> Compare:
    """No key begins with the prefix."""
    return Compare(prefix, Target.CREATED, Relation.EQUAL, 0, after(prefix))


def after(prefix: bytes) -> bytes:
    """The `end` of the range of all keys that begin with the prefix."""
    bare = prefix.rstrip(b"\xff")
    return bare[:-1] + bytes([bare[-1] + 1]) if bare else b"\0"  # etcd: up to the last key


class Put(NamedTuple):
    """Answered by no keys. A key keeps its create revision as long as it is there."""

    key: bytes
    value: bytes = b""
    lease: int = 0
    ignore_value: bool = False
    """Keep the value that it has; an error if the key is not there."""
    ignore_lease: bool = False
    """Keep the lease that it has; an error if the key is not there."""


class Delete(NamedTuple):
    """Answered by no keys. Compare, to know what is deleted: the server need not read it then."""

    key: bytes
    end: bytes = b""


class Range(NamedTuple):
    """Answered by the keys that are there, in the order of their creation."""

    key: bytes
    end: bytes = b""
    limit: int = 0
    """So many at most; 0: all."""
    newest_first: bool = False
    max_create_revision: int = 0
    """None that were created later; 0: all."""
    keys_only: bool = False
    """Without their values."""


Operation = Put | Delete | Range


class Reply(NamedTuple):
    """The answer to a transaction."""

    succeeded: bool
    """Whether all compares were true, and so which operations were done."""
    revision: int
    """Of the store, as the transaction left it: a put or delete of it has this as mod revision."""
    term: int
    """Of the Raft, as the member that answered knows it."""
    member: int
    """The id of that member."""
    answers: list[list[KeyValue]]
    """One for each operation that was done."""
    sent: float
    """When it was sent, by `runtimes.clock.now`."""


class Lease(NamedTuple):
    """The answer to `grant` and `keep_alive`."""

    id: int
    ttl: int
    """Whole seconds, as the cluster decided; 0 in the answer to `keep_alive`: it is gone."""
    term: int
    """Of the Raft, as the member that was asked knew it *before* the leader renewed the lease."""
    member: int
    sent: float
    """When it was sent: the time to live counts from there at the earliest."""


class What(Enum):
    """What became of a watched key."""

    CHANGED = "changed"
    DELETED = "deleted"
    ASK_AGAIN = "ask again"
    """Events may be missing (the revision was compacted, the watch was refused): nothing more will
    come from this watch. Whoever wants to know more asks, and watches from there."""


class Event(NamedTuple):
    """One change of one key."""

    what: What
    key: bytes = b""
    revision: int = 0


class Watch(Protocol):
    """One watch, until it is closed."""

    def close(self) -> None:
        """From any thread. Whatever is being told just now may still be told."""


class Link(Protocol):
    """The way of one colour to the cluster."""

    async def transact(
        self,
        compares: Sequence[Compare],
        then: Sequence[Operation],
        otherwise: Sequence[Operation] = (),
    ) -> Reply:
        """All of `then` if all compares are true, else all of `otherwise`; at one revision.

        It is linearizable if it has any operation: without one, a member that was cut off from the
        others would answer by itself.
        """

    async def grant(self, ttl: int, lease: int = 0) -> Lease:
        """A new lease, with this id if one is given; the cluster may choose a longer ttl."""

    async def keep_alive(self, lease: int) -> Lease:
        """Set its full ttl again. The leader answers by itself, without asking a majority."""

    async def revoke(self, lease: int) -> bool:
        """End it, with all its keys; False if it was gone."""

    def watch(
        self,
        key: bytes,
        from_revision: int,
        on_event: Callable[[Event], None],
        *,
        end: bytes = b"",
    ) -> Watch:
        """Call `on_event` for each change from this revision (1 or more) on, once and in order,
        from any thread. It must not block. A connection that is lost is made again, and goes on
        where the last one ended. All watches share one connection.
        """

    def move_on(self, member: int) -> None:
        """Have the next command sent to another member than this one, if there is another: to the
        next host, over a new connection.
        """

    @property
    def inside(self) -> Callable[[], bool]:
        """As that of `Backend`: whether this thread is in the middle of a command."""

    async def close(self) -> None:
        """End all connections and watches."""

    def forked(self) -> None:
        """In a forked child: drop what was inherited, without a word to the cluster. Watches of the
        parent ring nobody here.
        """

    def dropped(self) -> None:
        """From any thread: nobody has this link any more."""
