"""Who holds a lock and who waits for it, as the keys tell; breaking a hold, and the note about it.

The note says who broke a lock and why. It is a key of its own, beside the lines, that goes away by
itself. It is written in the transaction that deletes the hold, so a holder that misses its key
finds the note.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from locknut.backends.etcd import key_names, recipe
from locknut.backends.etcd.recipe import Contender
from locknut.core.values import Broken, Claim, Holder, LockInfo, Mode, Renewal, Renewed
from locknut.drivers.etcd.requests import (
    Delete,
    KeyValue,
    Operation,
    Put,
    Range,
    after,
    created,
)

if TYPE_CHECKING:
    from locknut.backends.etcd.leased_link import LeasedLink

CHUNK: Final = 100
"""Operations of one transaction at the most; servers allow 128."""


class Line(NamedTuple):
    """Everybody who holds a key or waits for it, in order."""

    holders: list[Contender]
    waiters: list[Contender]


async def inspect(link: LeasedLink, key: str) -> list[LockInfo]:
    return _infos({key: await _line(link, key)})


async def inspect_all(link: LeasedLink, namespace: str | None) -> list[LockInfo]:
    root = link.shared.settings.root
    prefix = root if namespace is None else key_names.space(root, namespace)
    everything = Range(prefix, after(prefix)) if prefix else Range(b"\0", b"\0")
    reply = await link.transact([], [everything])
    found: dict[str, dict[Mode, list[KeyValue]]] = defaultdict(lambda: defaultdict(list))
    for each in reply.answers[0]:
        place = key_names.place(root, each.key)
        if place is not None and (namespace is not None or key_names.claim_id_in(each.key)):
            found[place.key][place.mode].append(each)
    return _infos({key: _sorted(list(lines.values())) for key, lines in sorted(found.items())})


async def _line(link: LeasedLink, key: str) -> Line:
    root = link.shared.settings.root
    prefixes = [key_names.line(root, key, mode) for mode in (Mode.EXCLUSIVE, Mode.PERMIT)]
    reply = await link.transact([], [Range(each, after(each)) for each in prefixes])
    return _sorted(reply.answers)


def _sorted(lines: Sequence[Sequence[KeyValue]]) -> Line:
    holders: list[Contender] = []
    waiters: list[Contender] = []
    for found in lines:
        line = recipe.read(found)
        for each, holds in zip(line, recipe.holding(line), strict=True):
            (holders if holds else waiters).append(each)
    return Line(holders, waiters)


def _infos(lines: dict[str, Line]) -> list[LockInfo]:
    return [_info(key, line) for key, line in lines.items() if line.holders or line.waiters]


def _info(key: str, line: Line) -> LockInfo:
    holders = tuple(_shown(each) for each in line.holders)
    waiters = tuple(_shown(each)._replace(raw=None, since=None) for each in line.waiters)
    permits = [each.permits for each in (*line.holders, *line.waiters) if each.mode is Mode.PERMIT]
    return LockInfo(key, holders, waiters, max(permits, default=None))


def _shown(contender: Contender) -> Holder:
    facts = contender.facts
    pid, since = facts.get("pid"), facts.get("since")
    return Holder(
        host=str(facts.get("host") or ""),
        pid=pid if isinstance(pid, int) else None,
        who=str(facts.get("who") or ""),
        label=str(facts.get("label") or ""),
        mode=contender.mode,
        raw=contender.created,
        since=since if isinstance(since, int | float) and abs(since) < 1e12 else None,
    )


async def break_hold(link: LeasedLink, key: str, raw: int | None, note: str) -> LockInfo | None:
    """Delete the keys of the holders, each only if it is still the one that was seen."""
    root = link.shared.settings.root
    meant = [each for each in (await _line(link, key)).holders if raw in (None, each.created)]
    here = link.shared.states
    broken: list[Holder] = []
    for each in meant:
        left: list[Operation] = [Delete(each.key)]
        if note and each.id and each.id not in here:
            written = key_names.note(root, key, each.id)
            left.append(Put(written, note.encode(), await link.lease_aside()))
        reply = await link.transact(
            [created(each.key, each.created)], left, [Range(each.key, keys_only=True)]
        )
        if reply.succeeded:
            broken.append(_shown(each))
            if each.id in here:
                link.shared.notify(each.id, Broken(note) if note else Renewal.LOST)
    return LockInfo(key, tuple(broken)) if broken else None


async def add_notes(link: LeasedLink, claims: Sequence[Claim], answers: list[Renewed]) -> None:
    """Put the notes into the answers where a loss is known and there is one."""
    root = link.shared.settings.root
    lost = [at for at, answer in enumerate(answers) if answer is Renewal.LOST]
    for start in range(0, len(lost), CHUNK):
        chunk = lost[start : start + CHUNK]
        wanted = [Range(key_names.note(root, claims[at].key, claims[at].id)) for at in chunk]
        reply = await link.transact([], wanted)
        for at, found in zip(chunk, reply.answers, strict=True):
            if found:
                answers[at] = Broken(found[0].value.decode(errors="replace"))
