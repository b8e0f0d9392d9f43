"""The asyncio connections to a cluster: a link for each node."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from locknut.drivers.redis.cluster.hash_slots import Address
from locknut.drivers.redis.cluster.routing import Answers, Cluster, Routes
from locknut.drivers.redis.links import Link, LoopDial
from locknut.drivers.redis.streams import Stream
from locknut.errors import BackendError
from locknut.runtimes.shared_task import SharedTask


class NodeLinks(Routes):
    """The streams of one backend, to all nodes."""

    def __init__(self, cluster: Cluster, dial: LoopDial, *channels: bytes):
        super().__init__(cluster, dial.clock)
        self._channels = channels
        self._dial = dial
        self._links: dict[Address, Link] = {}
        self._refreshing: SharedTask[Any] = SharedTask()

    async def stream_for(self, packed: bytes) -> Stream:
        address = await self.owner_of(packed)
        try:
            return await self._at(address).connected()
        except BackendError:
            self.suspect(address)
            raise

    def known_stream_for(self, packed: bytes) -> Stream | None:
        """Where it would be sent now, if that needs no question."""
        address = self.known_owner_of(packed)
        link = None if address is None else self._links.get(address)
        return None if link is None else link.stream

    async def masters(self) -> list[Link]:
        await self.look()
        return [self._at(address) for address in self.cluster.map.masters()]

    def known(self) -> list[Link]:
        return list(self._links.values())

    async def close(self) -> None:
        for link in self.known():
            await link.close()

    def forked(self) -> None:
        self._refreshing.forked()
        for link in self._links.values():
            link.forked()

    async def _refresh(self) -> None:
        await self._refreshing.done(self._refreshed)

    async def _refreshed(self) -> None:
        await self.cluster.refresh(self._dial)
        for address in self._links.keys() - set(self.cluster.map.masters()):
            self._links.pop(address).forget()

    async def _together(self, sent: Mapping[Address, Sequence[bytes]]) -> Answers:
        work = [_answered(self._at(address), packed) for address, packed in sent.items()]
        return dict(zip(sent, await asyncio.gather(*work), strict=True))

    def _at(self, address: Address) -> Link:
        link = self._links.get(address)
        if link is None:
            link = self._links[address] = Link(
                self.cluster.node(address), self._dial, self._channels
            )
        return link


async def _answered(link: Link, packed: Sequence[bytes]) -> list[Any] | BackendError:
    try:
        return await link.send_many(packed)
    except BackendError as error:
        return error
