"""What an etcd cluster agrees on, as plain Python: keys, revisions, transactions, leases, events.

Pure: no clock and no members. Who counts the time of a lease, and who is asked, is said elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from locknut.drivers.etcd.requests import (
    Compare,
    Delete,
    Event,
    KeyValue,
    LeaseGone,
    Operation,
    Put,
    Range,
    Relation,
    Target,
    What,
)
from locknut.errors import BackendError

MOST_OPERATIONS = 128
ABSENT = KeyValue(b"", b"", 0, 0, 0, 0)


class Result(NamedTuple):
    """What a transaction came to."""

    succeeded: bool
    revision: int
    answers: list[list[KeyValue]]


class Store:
    """The keys, at one revision after the other."""

    def __init__(self, tell: Callable[[Event], None], least_ttl: int = 2) -> None:
        self.revision = 1
        self.keys: dict[bytes, KeyValue] = {}
        self.leases: dict[int, int] = {}
        """The ttl that was granted, by the lease's number."""
        self._tell = tell
        self._least_ttl = least_ttl
        self._events: list[Event] = []
        self._compacted = 0
        self._next_lease = 0x694D_0000_0000_0001

    def transact(
        self,
        compares: Sequence[Compare],
        then: Sequence[Operation],
        otherwise: Sequence[Operation],
    ) -> Result:
        if max(len(compares), len(then), len(otherwise)) > MOST_OPERATIONS:
            raise BackendError("too many operations in txn request", backend="etcd")
        if not all(each.key for each in (*compares, *then, *otherwise)):
            raise BackendError("key is not provided", backend="etcd")
        succeeded = all(self._is_true(each) for each in compares)
        chosen = then if succeeded else otherwise
        puts = [each.key for each in chosen if isinstance(each, Put)]
        if len(set(puts)) != len(puts):
            raise BackendError("duplicate key given in txn request", backend="etcd")
        for each in chosen:
            if isinstance(each, Put) and each.lease and each.lease not in self.leases:
                raise LeaseGone("requested lease not found", backend="etcd")
        after = self.revision + 1
        changes: list[Event] = []
        answers = [self._do(each, after, changes) for each in chosen]
        if changes:
            self._happened(changes)
        return Result(succeeded, self.revision, answers)

    def grant(self, ttl: int, lease: int) -> tuple[int, int]:
        if lease in self.leases:
            raise BackendError("lease already exists", backend="etcd")
        if not lease:
            lease, self._next_lease = self._next_lease, self._next_lease + 1
        self.leases[lease] = max(ttl, self._least_ttl)
        return lease, self.leases[lease]

    def revoke(self, lease: int) -> bool:
        """All its keys go in one revision."""
        if self.leases.pop(lease, None) is None:
            return False
        keys = [each.key for each in self.keys.values() if each.lease == lease]
        changes: list[Event] = []
        for key in keys:
            self._do(Delete(key), self.revision + 1, changes)
        if changes:
            self._happened(changes)
        return True

    def compact(self) -> None:
        """Nobody can see any more what happened until now."""
        self._compacted = self.revision
        self._events.clear()

    def since(self, revision: int, key: bytes, end: bytes) -> list[Event] | None:
        """What has happened from this revision on; None if that is not known any more."""
        if revision <= self._compacted:
            return None
        return [e for e in self._events if e.revision >= revision and within(e.key, key, end)]

    def _happened(self, changes: list[Event]) -> None:
        self.revision += 1
        self._events += changes
        for event in changes:
            self._tell(event)

    def _is_true(self, compare: Compare) -> bool:
        found = list(self._within(compare.key, compare.end)) or [ABSENT]
        return all(_stands(compare, each) for each in found)

    def _within(self, key: bytes, end: bytes) -> Iterator[KeyValue]:
        if not end:
            if key in self.keys:
                yield self.keys[key]
            return
        yield from (each for each in list(self.keys.values()) if within(each.key, key, end))

    def _do(self, what: Operation, revision: int, changes: list[Event]) -> list[KeyValue]:
        if isinstance(what, Range):
            return self._range(what)
        if isinstance(what, Put):
            before = self.keys.get(what.key, ABSENT)
            created = before.create_revision or revision
            value = before.value if what.ignore_value else what.value
            lease = before.lease if what.ignore_lease else what.lease
            version = before.version + 1
            self.keys[what.key] = KeyValue(what.key, value, created, revision, version, lease)
            changes.append(Event(What.CHANGED, what.key, revision))
            return []
        deleted = list(self._within(what.key, what.end))
        for each in deleted:
            del self.keys[each.key]
            changes.append(Event(What.DELETED, each.key, revision))
        return []

    def _range(self, what: Range) -> list[KeyValue]:
        most = what.max_create_revision
        found = [
            each
            for each in self._within(what.key, what.end)
            if not most or each.create_revision <= most
        ]
        found.sort(key=lambda each: each.create_revision, reverse=what.newest_first)
        if what.limit:
            found = found[: what.limit]
        return [each._replace(value=b"") for each in found] if what.keys_only else found


def within(key: bytes, start: bytes, end: bytes) -> bool:
    """Whether a key is in a range; an end of one zero byte is the end of all keys."""
    if not end:
        return key == start
    return key >= start and (end == b"\0" or key < end)


def _stands(compare: Compare, found: KeyValue) -> bool:
    of = {
        Target.VERSION: found.version,
        Target.CREATED: found.create_revision,
        Target.MODIFIED: found.mod_revision,
        Target.LEASE: found.lease,
    }
    left: int | bytes = found.value if compare.target is Target.VALUE else of[compare.target]
    right = compare.operand
    if compare.target is Target.VALUE and not found.version:
        return False
    if compare.relation is Relation.EQUAL:
        return left == right
    if compare.relation is Relation.NOT_EQUAL:
        return left != right
    greater: bool = left > right  # type: ignore[operator]  # both are numbers, or both are bytes
    return greater if compare.relation is Relation.GREATER else not greater and left != right
