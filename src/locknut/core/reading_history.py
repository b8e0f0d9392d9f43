"""What happened to the locks, as it was written down: `recording` is the other side."""

from __future__ import annotations

from typing import TYPE_CHECKING

from locknut.core import forking, history_entries, recording, validation
from locknut.core.inspecting import matching
from locknut.core.values import Capability

if TYPE_CHECKING:
    from locknut.core.client import Client
    from locknut.core.history_entries import HistoryEntry


async def history(client: Client, pattern: str | None, back: float | None) -> list[HistoryEntry]:
    """What was written down of the locks of this namespace, oldest first."""
    client = forking.here(client)
    client.ensure_open()
    validation.has(client.backend, Capability.HISTORY)
    written: list[tuple[float, str]] = []
    oldest = float("-inf")
    for stream in recording.STREAMS:
        key = recording.stream_key(client.prefix, stream)
        found = await client.runtime.finish(client.backend.read_history(key, back))
        written += found.texts
        oldest = oldest if back is None else max(oldest, found.now - back)
    entries = [each for each in history_entries.entries(written) if each.time >= oldest]
    return matching(entries, pattern)
