"""etcd's messages: what is sent for each request, and what an answer says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from locknut.drivers.etcd.protobuf import fields, inner, number, signed, text
from locknut.drivers.etcd.requests import (
    Compare,
    Delete,
    Event,
    KeyValue,
    Lease,
    Operation,
    Put,
    Range,
    Relation,
    Reply,
    Target,
    What,
)

TXN: Final = "/etcdserverpb.KV/Txn"
GRANT: Final = "/etcdserverpb.Lease/LeaseGrant"
REVOKE: Final = "/etcdserverpb.Lease/LeaseRevoke"
KEEP_ALIVE: Final = "/etcdserverpb.Lease/LeaseKeepAlive"
AUTHENTICATE: Final = "/etcdserverpb.Auth/Authenticate"
WATCH: Final = "/etcdserverpb.Watch/Watch"

_ASCENDING: Final = 1
_DESCENDING: Final = 2
_BY_CREATION: Final = 2
_OPERAND: Final = {
    Target.VERSION: 4,
    Target.CREATED: 5,
    Target.MODIFIED: 6,
    Target.VALUE: 7,
    Target.LEASE: 8,
}
"""The field of a compare that has what is compared with."""
_TRUE: Final = 1
_KEYS_ONLY: Final = number(8, _TRUE)


def transaction(
    compares: Sequence[Compare], then: Sequence[Operation], otherwise: Sequence[Operation]
) -> bytes:
    packed = b""
    for compare in compares:
        packed += _compare(compare)
    for each in then:
        packed += _PACKED[type(each)](2, each)
    for each in otherwise:
        packed += _PACKED[type(each)](3, each)
    return packed


def _compare(compare: Compare) -> bytes:
    key, target, relation, operand, end = compare
    packed = _HEADS[relation][target] + text(3, key)
    field = _OPERAND[target]
    packed += text(field, operand) if isinstance(operand, bytes) else number(field, operand)
    return inner(1, packed + text(64, end) if end else packed)


_HEADS: Final = [
    [number(1, relation) + number(2, target) for target in Target] for relation in Relation
]
"""What a compare begins with, by the numbers of its relation and target."""


@lru_cache(1024)
def _range(field: int, asked: Range) -> bytes:
    """Kept, because most are about the line of the same lock, or the key of the same session."""
    key, end, limit, newest_first, max_create_revision, keys_only = asked
    packed = text(1, key)
    if end:
        order = _DESCENDING if newest_first else _ASCENDING
        packed += text(2, end) + number(3, limit) + number(5, order) + number(6, _BY_CREATION)
    if max_create_revision:
        packed += number(13, max_create_revision)
    return inner(field, inner(1, packed + _KEYS_ONLY if keys_only else packed))


def _put(field: int, put: Put) -> bytes:
    key, value, lease, ignore_value, ignore_lease = put
    packed = text(1, key) + text(2, value) + number(3, lease)
    if ignore_value or ignore_lease:
        packed += number(5, ignore_value) + number(6, ignore_lease)
    return inner(field, inner(2, packed))


def _delete(field: int, delete: Delete) -> bytes:
    return inner(field, inner(3, text(1, delete.key) + text(2, delete.end)))


_PACKED: Final[dict[type, Callable[[int, Any], bytes]]] = {
    Range: _range,
    Put: _put,
    Delete: _delete,
}


def grant(ttl: int, lease: int) -> bytes:
    return number(1, ttl) + number(2, lease)


def of_lease(lease: int) -> bytes:
    """What is asked to keep it alive, or to revoke it."""
    return number(1, lease)


def login(username: str, password: str) -> bytes:
    return text(1, username.encode()) + text(2, password.encode())


def create_watch(watch: int, key: bytes, end: bytes, from_revision: int) -> bytes:
    packed = text(1, key) + text(2, end) + number(3, from_revision) + number(7, watch)
    return inner(1, packed)


def cancel_watch(watch: int) -> bytes:
    return inner(2, number(1, watch))


class Header(NamedTuple):
    """What every answer begins with."""

    member: int = 0
    revision: int = 0
    term: int = 0


_members: dict[bytes, int] = {}
"""By the beginning of a header, which names the cluster and the member, and stays the same: both
are numbers of 64 bits, which take longer to read than all the rest.
"""
_MOST_MEMBERS: Final = 64
_lengths: list[int] = []
"""How long such beginnings are."""


def _header(message: Any) -> Header:
    for length in _lengths:
        member = _members.get(message[:length])
        if member is not None:
            found = dict(fields(message[length:]))
            return Header(member, found.get(3, 0), found.get(4, 0))  # type: ignore[arg-type]
    return _new_header(message)


def _new_header(message: bytes) -> Header:
    found: dict[int, Any] = dict(fields(message))
    header = Header(found.get(2, 0), found.get(3, 0), found.get(4, 0))
    begins = number(1, found.get(1, 0)) + number(2, header.member)
    if header.member and message.startswith(begins) and len(_members) < _MOST_MEMBERS:
        _members[begins] = header.member
        if len(begins) not in _lengths:
            _lengths.append(len(begins))
    return header


def reply(message: bytes, sent: float) -> Reply:
    header, succeeded = Header(), False
    answers: list[list[KeyValue]] = []
    for field, value in fields(message):
        if field == 1:
            header = _header(value)
        elif field == 2:
            succeeded = bool(value)
        elif field == 3:
            answers.append(_answer(value))
    return Reply(succeeded, header.revision, header.term, header.member, answers, sent)


_RANGE: Final = 1
"""The kind of answer that has keys, as field 2."""


def _answer(message: Any) -> list[KeyValue]:
    if not message or message[0] != _RANGE << 3 | 2:
        return []
    ((_, found),) = fields(message)
    return [_key_value(value) for field, value in fields(found) if field == 2]  # type: ignore[arg-type]


def _key_value(message: Any) -> KeyValue:
    found: dict[int, Any] = dict(fields(message))
    get = found.get
    return KeyValue(get(1, b""), get(5, b""), get(2, 0), get(3, 0), get(4, 0), signed(get(6, 0)))


def lease(message: bytes, sent: float) -> Lease:
    """The answer to a grant or a keep-alive."""
    found: dict[int, Any] = dict(fields(message))
    header = _header(found.get(1, b""))
    ttl = max(0, signed(found.get(3, 0)))
    return Lease(signed(found.get(2, 0)), ttl, header.term, header.member, sent)


def ticket(message: bytes) -> bytes:
    """What a login is answered by, to be shown with each request from then on."""
    found: dict[int, Any] = dict(fields(message))
    return bytes(found.get(2, b""))


class Told(NamedTuple):
    """One message of a stream of watches."""

    watch: int
    created: bool
    canceled: bool
    reason: str
    events: list[Event]


def told(message: bytes) -> Told:
    found: dict[int, Any] = {}
    events: list[Event] = []
    for field, value in fields(message):
        if field == 11:
            events.append(_event(value))
        else:
            found[field] = value
    get = found.get
    reason = bytes(get(6, b"")).decode(errors="replace")
    if get(5, 0):
        reason = reason or "compacted"
    return Told(signed(get(2, 0)), bool(get(3, 0)), bool(get(4, 0)), reason, events)


def _event(message: Any) -> Event:
    found: dict[int, Any] = dict(fields(message))
    changed = _key_value(found.get(2, b""))
    what = What.DELETED if found.get(1, 0) else What.CHANGED
    return Event(what, changed.key, changed.mod_revision)
