"""The blocking colour: a command ends by the deadline of the thread that waits for it."""

from __future__ import annotations

from locknut.backends.zookeeper.backend import ZooKeeperBackend
from locknut.backends.zookeeper.session import CLOSE_PATIENCE, LIMIT
from locknut.runtimes.deadlines import time_left


class BlockingBackend(ZooKeeperBackend):
    """For threads."""

    def inside(self) -> bool:
        return self.session.sending()

    def _until(self) -> float:
        try:
            return self.now() + time_left(LIMIT)
        except TimeoutError as error:
            raise self.unavailable() from error

    async def close(self) -> None:
        if self._leaving.detach() is not None:
            closing = self.session.leave()
            if closing is not None:
                closing.join(CLOSE_PATIENCE)
