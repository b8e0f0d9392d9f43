"""Whether the Sentinels of a service can fail it over, agree with each other, and are quick."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from hiredis import HiredisError

from locknut.backends.redis.recipe import DEFAULT_TTL
from locknut.core.durations import spell
from locknut.core.findings import Check, NotKnown, fail, judged, ok, warn
from locknut.core.values import Finding
from locknut.drivers.redis import wire
from locknut.drivers.redis.connections import Connection
from locknut.drivers.redis.endpoints import BRIEFLY
from locknut.drivers.redis.sentinel import Sentinels
from locknut.drivers.redis.server_facts import refusal
from locknut.drivers.redis.settings import Settings
from locknut.errors import BackendError

CODES: Final = ("redis-sentinels", "redis-sentinel-quorum", "redis-down-after")
_ENOUGH: Final = 3
"""Two of them can still agree when one is lost."""


class Opinion:
    """What one Sentinel says of the service."""

    def __init__(self, place: str, replies: Sequence[Any]):
        self.place = place
        master, quorum = replies
        self.refused = refusal(master)
        words = [] if self.refused else [word.decode() for word in master]
        self._told = dict(zip(words[::2], words[1::2], strict=True))
        self.cannot = refusal(quorum) if str(quorum).startswith("NOQUORUM") else ""

    def number(self, name: str) -> int:
        return int(self._told[name])

    @property
    def master(self) -> str:
        return f"{self._told['ip']}:{self._told['port']}"


def check(service: Sentinels) -> Check:
    """What can be asked of them."""

    async def ask() -> list[Finding]:
        name = service.service.encode()
        opinions: list[Opinion] = []
        silent: dict[str, str] = {}
        for sentinel in service.sentinels:
            try:
                opinions.append(Opinion(sentinel.place, _asked(sentinel.in_turn(BRIEFLY), name)))
            except BackendError as error:
                silent[sentinel.place] = error.message
        judges = (
            lambda: _agreement(opinions, silent),
            lambda: _quorum(_told(opinions)),
            lambda: _down_after(_told(opinions)),
        )
        return [judged(code, judge) for code, judge in zip(CODES, judges, strict=True)]

    return Check(CODES, ask)


def _asked(sentinel: Settings, service: bytes) -> list[Any]:
    questions = [
        wire.pack(b"SENTINEL", b"MASTER", service),
        wire.pack(b"SENTINEL", b"CKQUORUM", service),
    ]
    try:
        connection = Connection(sentinel)
        try:
            return connection.send_many(questions)
        finally:
            connection.close()
    except BackendError:
        raise
    except (OSError, HiredisError) as error:
        raise wire.unreachable(sentinel, error) from error


def _told(opinions: Sequence[Opinion]) -> list[Opinion]:
    told = [each for each in opinions if not each.refused]
    if not told:
        why = opinions[0].refused if opinions else "none of them answered"
        raise NotKnown(f"No Sentinel lets us read its settings: {why}.")
    return told


def _agreement(opinions: Sequence[Opinion], silent: dict[str, str]) -> Finding:
    code = "redis-sentinels"
    told = _told(opinions)
    masters = {each.master: each.place for each in told}
    if len(masters) > 1:
        said = ", ".join(f"{place} says {master}" for master, place in masters.items())
        advice = (
            "Wait for the end of a failover; if it lasts, let SENTINEL RESET clear the wrong one."
        )
        return fail(code, f"The Sentinels do not agree who the master is: {said}.", advice)
    if silent:
        place, why = next(iter(silent.items()))
        found = f"{len(silent)} of the Sentinels of the URL cannot be asked: {place}: {why}."
        return warn(code, found, "Start them, or take them out of the URL.")
    count = 1 + max(each.number("num-other-sentinels") for each in told)
    if count < _ENOUGH:
        found = f"{count} Sentinels watch the service: if one is lost, nothing fails over."
        return warn(code, found, "Run three Sentinels on three machines.")
    return ok(code, f"{count} Sentinels watch the service and agree who the master is.")


def _quorum(told: Sequence[Opinion]) -> Finding:
    code = "redis-sentinel-quorum"
    for each in told:
        if each.cannot:
            found = f"The Sentinels cannot fail over now: {each.place} says {each.cannot}."
            return fail(code, found, "Start the Sentinels that are missing.")
    quorum = min(each.number("quorum") for each in told)
    if quorum < 2:
        found = "One Sentinel alone may decide that the master is down (quorum 1)."
        advice = "Set the quorum to a majority of the Sentinels: 2 of 3."
        return warn(code, found, advice)
    return ok(code, f"{quorum} Sentinels have to agree that the master is down.")


def _down_after(told: Sequence[Opinion]) -> Finding:
    code = "redis-down-after"
    seconds = max(each.number("down-after-milliseconds") for each in told) / 1000
    found = f"A master counts as down after {spell(seconds)} (down-after-milliseconds)."
    if seconds >= DEFAULT_TTL:
        advice = (
            f"Set it below {spell(DEFAULT_TTL / 3)}: until then every lease of that ttl is lost."
        )
        return warn(code, found, advice)
    return ok(code, found)
