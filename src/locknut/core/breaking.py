"""Breaking a hold by force. Its holder learns of it by `losing`, with the note."""

from __future__ import annotations

from typing import TYPE_CHECKING

from locknut.core import forking, notes
from locknut.core.inspecting import info
from locknut.core.values import Event
from locknut.errors import StaleFence

if TYPE_CHECKING:
    from locknut.core.client import Client


async def force_release(client: Client, name: str, fence: int | None, reason: str = "") -> bool:
    """Break a hold; only if `fence` (where given) is still the one that holds."""
    client = forking.here(client)
    client.ensure_open()
    raw = None if fence is None else fence // client.fence_step
    key, note = client.prefix + name, notes.written(reason, client.label)
    broken = await client.runtime.finish(client.backend.break_hold(key, raw, note))
    if broken is not None:
        why = reason or "force_release"
        event = Event("broken", name, client.backend.name, fence=fence, reason=why)
        if client.events.wants("broken"):
            client.emit_event(event)
        return True
    now = await info(client, name)
    if fence is not None and now.holders and all(each.raw != raw for each in now.holders):
        message = (
            f"not broken: fence {fence} does not hold it any more, fence {now.holders[0].fence} "
            f"does (held by {now.holders[0]}); look again before you break that one"
        )
        raise StaleFence(message, key=name, backend=client.backend.name)
    return False
