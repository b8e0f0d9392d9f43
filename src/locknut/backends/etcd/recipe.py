"""Who holds a lock, as the line under its prefix tells: the order of creation decides.

Nobody ever comes before a key that is there: a key keeps its create revision until it is deleted.
So what was found to be granted stays granted, and whoever waits need only be told when one of the
keys goes that surely keep it out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from locknut.backends.etcd import key_names
from locknut.core.values import Mode
from locknut.drivers.etcd.requests import KeyValue


class Contender(NamedTuple):
    """Somebody in a line, as its key and value tell."""

    key: bytes
    id: str
    """The claim's; empty where another client's key carries none."""
    mode: Mode
    permits: int
    created: int
    """The create revision: its place in line, and its number when it holds."""
    modified: int
    lease: int
    detached: bool
    facts: dict[str, Any]


class Verdict(NamedTuple):
    """Whether a claim holds its key; if not, what to wait for."""

    mine: bool
    behind: tuple[bytes, ...] = ()
    """As long as all of these are there, it does not hold."""


MINE = Verdict(True)


def verdict(ahead: Sequence[Contender], mode: Mode, permits: int) -> Verdict:
    """Decide about a claim from all that stand before it, in order.

    Of those that keep it out it is enough to watch the last, which is likely to stay the longest.
    A permit is free once fewer than `permits` are left: while the last `permits` of them are all
    there, it is not.
    """
    if mode is Mode.PERMIT:
        others = [each for each in ahead if each.mode is not Mode.PERMIT]
        if others:  # another client's key: it means to have all of it
            return Verdict(False, (others[-1].key,))
        if len(ahead) < permits:
            return MINE
        return Verdict(False, tuple(each.key for each in ahead[-permits:]))
    keep_out = [each for each in ahead if not mode is each.mode is Mode.SHARED]
    return Verdict(False, (keep_out[-1].key,)) if keep_out else MINE


def holding(line: Sequence[Contender]) -> Iterator[bool]:
    """Whether each holds, of a whole line in order: as `verdict` says, in one walk."""
    only_readers = only_permits = True
    for place, own in enumerate(line):
        if own.mode is Mode.PERMIT:
            yield only_permits and place < own.permits
        else:
            yield place == 0 or (own.mode is Mode.SHARED and only_readers)
        only_readers &= own.mode is Mode.SHARED
        only_permits &= own.mode is Mode.PERMIT


def read(found: Iterable[KeyValue]) -> list[Contender]:
    """The contenders of a line, first come first."""
    contenders = [contender(each) for each in found]
    contenders.sort(key=lambda each: each.created)
    return contenders


def contender(found: KeyValue) -> Contender:
    """What a key in a line says. One of another client, as `etcdctl lock`, is an exclusive hold."""
    facts = facts_in(found.value)
    claim_id = key_names.claim_id_in(found.key)
    mode = Mode.EXCLUSIVE
    permits = 1
    if claim_id:
        claim_id = str(facts.get("id") or claim_id)
        mode = _MODES.get(str(facts.get("mode")), Mode.EXCLUSIVE)
        says = facts.get("permits")
        permits = says if isinstance(says, int) else 1
    return Contender(
        found.key,
        claim_id,
        mode,
        permits,
        found.create_revision,
        found.mod_revision,
        found.lease,
        bool(claim_id and facts.get("detached")),
        facts,
    )


def find(line: Sequence[Contender], claim_id: str) -> Contender | None:
    return next((each for each in line if each.id == claim_id), None)


def facts_in(value: bytes) -> dict[str, Any]:
    """Return what a key says. Another client's value may be any text: then that is its label."""
    text = value.decode(errors="replace")
    try:
        facts = json.loads(text)
    except (ValueError, RecursionError):
        facts = text
    return facts if isinstance(facts, dict) else {"label": text}


_MODES = {mode.value: mode for mode in Mode}
