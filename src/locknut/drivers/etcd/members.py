"""Which member of the cluster is spoken to, as all links of an engine know it."""

from __future__ import annotations

import threading

from locknut.drivers.etcd.settings import Settings


class Members:
    """The hosts of a URL, and the one that commands go to now."""

    def __init__(self, settings: Settings):
        self.hosts = settings.hosts
        self._mutex = threading.RLock()  # a finalizer may come in
        self._chosen = 0
        self._ids: dict[int, tuple[str, int]] = {}
        """Which member answered at which host."""

    @property
    def chosen(self) -> tuple[str, int]:
        return self.hosts[self._chosen]

    def leave(self, host: tuple[str, int]) -> None:
        """It was silent, or said that it cannot answer: from now on the next one is asked."""
        with self._mutex:
            if self.hosts[self._chosen] == host:
                self._chosen = (self._chosen + 1) % len(self.hosts)

    def answered(self, host: tuple[str, int], member: int) -> None:
        """Note which member it is: `move_on` names members."""
        if self._ids.get(member) != host:
            self._ids[member] = host

    def move_on(self, member: int) -> None:
        host = self._ids.get(member)
        if host is not None:
            self.leave(host)
