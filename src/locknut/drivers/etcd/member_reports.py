"""What a member of an etcd says of itself and of its cluster, for people who look after it."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from locknut.drivers.etcd.protobuf import fields

STATUS: Final = "/etcdserverpb.Maintenance/Status"
ALARMS: Final = "/etcdserverpb.Maintenance/Alarm"
MEMBERS: Final = "/etcdserverpb.Cluster/MemberList"
_KINDS: Final = {1: "NOSPACE", 2: "CORRUPT"}


class Status(NamedTuple):
    """One member."""

    cluster: int
    member: int
    version: str
    leader: int
    """0: it knows none."""
    learner: bool
    errors: tuple[str, ...]


def status(message: bytes) -> Status:
    found: dict[int, Any] = {}
    errors: list[str] = []
    for field, value in fields(message):
        if field == 8:
            errors.append(_text(value))
        else:
            found[field] = value
    header: dict[int, Any] = dict(fields(found.get(1, b"")))
    return Status(
        cluster=header.get(1, 0),
        member=header.get(2, 0),
        version=_text(found.get(2, b"")),
        leader=found.get(4, 0),
        learner=bool(found.get(10, 0)),
        errors=tuple(errors),
    )


def alarms(message: bytes) -> set[str]:
    """The kinds of alarms that are raised by any member."""
    raised: list[dict[int, Any]] = [
        dict(fields(value))  # type: ignore[arg-type]  # of a message that has fields of its own
        for field, value in fields(message)
        if field == 2
    ]
    return {_KINDS.get(each.get(2, 0), f"alarm {each.get(2, 0)}") for each in raised}


def member_count(message: bytes) -> int:
    return sum(field == 2 for field, _ in fields(message))


def _text(value: Any) -> str:
    return bytes(value).decode(errors="replace")
