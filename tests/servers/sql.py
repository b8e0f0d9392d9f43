"""What private SQL servers have in common: data that stay, fresh databases, and disturbances."""

from __future__ import annotations

import itertools
import shutil
import signal
import tempfile
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from tests.servers.certificates import Certificates
from tests.servers.databases import Database
from tests.servers.serving import Server

LONGEST_FOLDER = 80
"""Bytes: with the name of a socket in it, 107 are possible."""


class SqlServer(Server):
    """One server, on a port and on a socket. Whatever kills it, what was committed is kept."""

    scheme: ClassVar[str]
    ending: ClassVar[signal.Signals]
    """Asks it to end, without waiting for those who are connected."""

    def __init__(
        self,
        *,
        certificates: Certificates | None = None,
        wants_certificates: bool = False,
        connections: int = 200,
        waits_for_disk: bool = False,
        more: dict[str, str] | None = None,
    ) -> None:
        """With `certificates` it speaks TLS alone on its port; `wants_certificates` of clients.
        `connections` for ordinary users: the administrator always gets one. A test ends
        processes, never the machine, so that what a server has written is safe before the disk has
        it: only a benchmark `waits_for_disk`. `more` goes to the server as it is.
        """
        super().__init__()
        self.certificates = certificates
        self.wants_certificates = wants_certificates
        self.connections = connections
        self.waits_for_disk = waits_for_disk
        self.more = more or {}
        self.sockets = self.folder
        if len(str(self.folder)) > LONGEST_FOLDER:
            self.sockets = Path(tempfile.mkdtemp(prefix="locknut-", dir="/tmp"))
        self._numbers = itertools.count(1)

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def launch(self) -> None:
        if not self.data.exists():
            self._make_data()
        super().launch()

    def restart(self, *, keep_data: bool) -> None:
        """Killed and back at the same address, with all its data or none, not even the databases
        of the tests.
        """
        self.kill()
        if not keep_data:
            shutil.rmtree(self.data)
        self.start()

    def shut_down(self) -> None:
        """Ended in good order; it tells those who are connected. `start` brings it back."""
        self.process.end(self.ending)

    def close(self) -> None:
        super().close()
        shutil.rmtree(self.sockets, ignore_errors=True)

    def database(self) -> Database:
        """A fresh one: `with server.database() as database:`, or let it be."""
        made = Database(self, f"test_{self.number()}")
        self.create(made)
        return made

    def number(self) -> int:
        """One that nothing in this server has yet."""
        return next(self._numbers)

    @abstractmethod
    def ask(self, sql: str, database: str = "") -> list[tuple[object, ...]]:
        """The rows of one statement, on a connection of its own, by the administrator."""

    @abstractmethod
    def create(self, database: Database) -> None: ...

    @abstractmethod
    def drop(self, database: Database) -> None:
        """With whoever is connected to it."""

    @abstractmethod
    def add_user(self, database: Database, grants: Sequence[str]) -> None:
        """The one that this database is for."""

    @abstractmethod
    def url_options(self) -> str: ...

    @abstractmethod
    def unix_url(self, login: str, database: str) -> str: ...

    # Disturbances.

    @abstractmethod
    def sessions(self) -> list[int]:
        """Numbers of all that are connected, the one who asks left out."""

    @abstractmethod
    def end_session(self, number: int) -> None: ...

    def end_sessions(self) -> int:
        """How many connections were cut: everybody's."""
        numbers = self.sessions()
        for number in numbers:
            self.end_session(number)
        return len(numbers)

    @abstractmethod
    def read_only(self, on: bool) -> None:
        """Whether ordinary users may only read, as on a replica; sessions notice at once."""

    # How it is started.

    @abstractmethod
    def _make_data(self) -> None: ...
