"""The note to the holder of a broken lock: where it stands, and when it is written and read.

It says who broke a lock and why. It is the data of the lock's own node: everything under that node
stands in line, for other clients too, so nothing is added there. The data of that node is
empty otherwise. If somebody else has written to it, we leave it alone and there is no note. The
note goes with the node, which the server removes once nobody stands under it. A holder that has
read the note crosses itself out, and the next break writes over it.

A holder asks for the note with every renewal, not only once it knows of a loss. The note is written
before the hold is deleted, so the answer that tells of the loss has the note too, and nobody has to
wait for it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from kazoo.protocol.serialization import GetData, SetData

from locknut.backends.zookeeper import node_names
from locknut.core.values import Broken, Claim, Renewal, Renewed
from locknut.errors import BackendError

if TYPE_CHECKING:
    from locknut.backends.zookeeper.requests import Asker

_MARK: Final = "locknut_broken"
_MOST: Final = 100
"""Holders that one note names."""


async def leave(asker: Asker, folder: str, ids: Sequence[str], note: str) -> None:
    """Write the note, before these claims lose their nodes. A break does not depend on it."""
    with suppress(BackendError):
        (found,) = await asker.answers([GetData(folder, None)])
        if isinstance(found, tuple) and (not found[0] or _unpack(found[0]) is not None):
            written = _pack(list(ids)[:_MOST], note)
            await asker.answers([SetData(folder, written, found[1].version)])


def folders(asker: Asker, claims: Sequence[Claim]) -> list[str]:
    """Where the notes for these would be, each folder once."""
    root = asker.session.settings.root
    return list(dict.fromkeys(node_names.folder(root, claim.key) for claim in claims))


def add(
    asker: Asker, claims: Sequence[Claim], answers: list[Renewed], found: dict[str, Any]
) -> None:
    """Put the note into the answers where a loss is known and the folder has one."""
    root = asker.session.settings.root
    lost: dict[str, dict[str, int]] = {}
    for at, (claim, answer) in enumerate(zip(claims, answers, strict=True)):
        if answer is Renewal.LOST:
            lost.setdefault(node_names.folder(root, claim.key), {})[claim.id] = at
    for folder, named in lost.items():
        read = _unpack(found[folder][0]) if isinstance(found[folder], tuple) else None
        if read is not None:
            ids, note = read
            for claim_id in named.keys() & set(ids):
                answers[named[claim_id]] = Broken(note)
            left = [each for each in ids if each not in named]
            if len(left) < len(ids):  # nobody waits for this: a note that stays harms nobody
                written = _pack(left, note) if left else b""
                asker.session.post(SetData(folder, written, found[folder][1].version))


def _pack(ids: list[str], note: str) -> bytes:
    return json.dumps({_MARK: ids, "note": note}, separators=(",", ":")).encode()


def _unpack(data: bytes | None) -> tuple[list[str], str] | None:
    """Whom the note is for, and what it says; None if this is not a note of ours."""
    try:
        facts = json.loads((data or b"").decode())
        return [str(each) for each in facts[_MARK]], str(facts["note"])
    except (ValueError, KeyError, TypeError):
        return None
