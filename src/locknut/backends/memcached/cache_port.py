"""What the memcached engine needs of a way to its server, in either colour."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Protocol

from locknut.backends.memcached.handles import Instance
from locknut.drivers.memcached.replies import Reply
from locknut.drivers.memcached.server_clocks import ServerClocks
from locknut.drivers.memcached.server_identity import Greeted


class Server(Protocol):
    """A way to the server."""

    clocks: ServerClocks
    evicts: bool
    """As the server said when we connected last (`Greeted.evicts`)."""

    async def ask(
        self, packed: Sequence[bytes], instance: Instance | None = None
    ) -> tuple[list[Reply], Greeted]:
        """The replies, and what their server said of itself when we connected."""

    def change(self, packed: bytes, instance: Instance) -> int | Awaitable[int]:
        """One command that replaces an item by its CAS id: the new one, or 0."""

    async def ask_list(self, packed: bytes) -> list[Reply]: ...

    async def look_at_clock(self) -> None:
        """Ask the server what its clock shows now."""

    async def close(self) -> None: ...

    def forked(self) -> None: ...

    def dropped(self) -> None: ...
