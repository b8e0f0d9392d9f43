"""Who broke a lock and why: a note in the data of the lock's own node, for the holder to read.

Whatever stands under that node is in line, for other clients too, so nothing is added there. The
node's own data is empty: if somebody else has written to it, it is left alone, and there is no
note. The note goes with the node, which the server removes once nobody stands under it. Whoever
has read it crosses himself out, and the next break writes over it.

A holder asks for it with every renewal and not once a loss is known: a note is written before the
hold is deleted, so the answer that tells of the loss has it, and nobody waits to be told.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from kazoo.protocol.serialization import GetData, SetData

from locknut.backends.zookeeper import naming
from locknut.core.values import Broken, Claim, Renewal, Renewed
from locknut.errors import BackendError

if TYPE_CHECKING:
    from locknut.backends.zookeeper.asking import Asker

_MARK: Final = "locknut_broken"
_MOST: Final = 100
"""Holders that one note names."""


async def leave(asker: Asker, folder: str, ids: Sequence[str], note: str) -> None:
    """Before the nodes of these claims are deleted. The break does not depend on it."""
    with suppress(BackendError):
        (found,) = await asker.answers([GetData(folder, None)])
        if isinstance(found, tuple) and (not found[0] or _understood(found[0]) is not None):
            written = _packed(list(ids)[:_MOST], note)
            await asker.answers([SetData(folder, written, found[1].version)])


def folders(asker: Asker, claims: Sequence[Claim]) -> list[str]:
    """Where the notes for these would be, each folder once."""
    root = asker.session.settings.root
    return list(dict.fromkeys(naming.folder(root, claim.key) for claim in claims))


def told(
    asker: Asker, claims: Sequence[Claim], answers: list[Renewed], found: dict[str, Any]
) -> None:
    """Put the note into the answers where a loss is known and the folder has one."""
    root = asker.session.settings.root
    lost: dict[str, dict[str, int]] = {}
    for at, (claim, answer) in enumerate(zip(claims, answers, strict=True)):
        if answer is Renewal.LOST:
            lost.setdefault(naming.folder(root, claim.key), {})[claim.id] = at
    for folder, named in lost.items():
        read = _understood(found[folder][0]) if isinstance(found[folder], tuple) else None
        if read is not None:
            ids, note = read
            for claim_id in named.keys() & set(ids):
                answers[named[claim_id]] = Broken(note)
            left = [each for each in ids if each not in named]
            _cross_out(asker, folder, left, found[folder])


def _cross_out(asker: Asker, folder: str, left: list[str], found: tuple[bytes, Any]) -> None:
    """Nobody waits for this: a note that stays harms nobody."""
    ids, note = _understood(found[0]) or ([], "")
    if len(left) < len(ids):
        written = _packed(left, note) if left else b""
        asker.session.post(SetData(folder, written, found[1].version))


def _packed(ids: list[str], note: str) -> bytes:
    return json.dumps({_MARK: ids, "note": note}, separators=(",", ":")).encode()


def _understood(data: bytes | None) -> tuple[list[str], str] | None:
    """Whom the note is for, and what it says; None if this is no note of ours."""
    try:
        facts = json.loads((data or b"").decode())
        return [str(each) for each in facts[_MARK]], str(facts["note"])
    except (ValueError, KeyError, TypeError):
        return None
