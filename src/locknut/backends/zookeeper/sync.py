"""The blocking colour: a command ends by the deadline of the thread that waits for it."""

from __future__ import annotations

from collections.abc import Sequence

from locknut.backends.zookeeper.backend import ZooKeeperBackend
from locknut.backends.zookeeper.session import CLOSE_PATIENCE, LIMIT
from locknut.core.findings import Check
from locknut.runtimes.deadlines import time_left


class BlockingBackend(ZooKeeperBackend):
    """For threads."""

    def inside(self) -> bool:
        return self.session.sending()

    def checks(self, prefix: str) -> Sequence[Check]:  # noqa: ARG002 -- all servers
        from locknut.backends.zookeeper import checkup  # few programs need it

        return checkup.checks(self.session.settings, lambda: self.session.proof.timeout)

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
