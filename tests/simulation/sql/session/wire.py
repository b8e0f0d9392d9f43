"""One connection to one session: both directions in order, and how it is cut.

What has arrived at the client is in its kernel's buffer, whether its process runs or not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from tests.simulation.coroutines import Future

if TYPE_CHECKING:
    from tests.simulation.process import Process
    from tests.simulation.sql.session.server import SessionDatabase
    from tests.simulation.sql.session.server_session import ServerSession

NOTICED_AFTER = (0.0, 0.5, 3.0, 40.0)
"""Seconds until the server gives up a session whose client it cannot reach."""
_BRIEFLY = 1e-9


class Wire:
    """The client's end has `received`; the server's end is the session."""

    def __init__(self, process: Process, database: SessionDatabase, session: ServerSession) -> None:
        self.session = session
        """Another one, if something in between has reconnected in silence."""
        self.descriptor = max(process.files, default=2) + 1
        self.received: deque[Any] = deque()
        """Answers that nobody has taken yet."""
        self.hung_up = False
        """Whether the end of the connection has arrived at the client."""
        self.ring: Callable[[], None] | None = None
        """Called once when something arrives."""
        self._process = process
        self._database = database
        self.severed = False
        """Nothing gets through any more, and nobody says so."""
        self._closed = False
        self._server_at = self._client_at = 0.0
        self._expected: Future[None] | None = None
        session.wire = self
        process.files[self.descriptor] = self
        process.on_end(self._abandoned)

    # From the client.

    def send(self, arrive: Callable[[ServerSession], None]) -> None:
        """What the session does when this has come to it; it comes after all that was sent
        before.
        """
        network, world = self._database.network, self._database.world
        if self.severed or network.befalls("request_lost"):
            self._sever()
            return
        self._server_at = max(self._server_at + _BRIEFLY, world.now + network.delay())
        world.at(self._server_at, lambda: self._database.received(self.session, arrive))

    def close(self) -> None:
        """The last word, behind whatever was sent before."""
        if not self._closed:
            self._closed = True
            self._process.files.pop(self.descriptor)
            self._process.not_on_end(self._abandoned)
            self.send(self._database.closed)

    def _abandoned(self) -> None:
        """Its process is gone: the kernel hangs up, unless that is gone as well."""
        if self._database.network.befalls("half_open"):
            self._sever()
        self.close()

    async def something(self, until: float) -> bool:
        """Wait until something has arrived; False once that time has come."""
        while not self.received and not self.hung_up:
            if self._process.now() >= until:
                return False
            expected = self._expected = Future[None]()
            call_off = self._process.at(until, partial(expected.resolve, None))
            try:
                await expected
            finally:
                call_off()
                self._expected = None
        return True

    # From the server.

    def answer(self, what: Any) -> None:
        self._tell(lambda: self.received.append(what))

    def hang_up(self) -> None:
        def hear() -> None:
            self.hung_up = True

        self._tell(hear)

    def _tell(self, hear: Callable[[], None]) -> None:
        network, world = self._database.network, self._database.world
        if self.severed or network.befalls("reply_lost"):
            self._sever()
            return

        def arrived() -> None:
            hear()
            ring, self.ring = self.ring, None
            if ring is not None:
                self._process.soon(ring)
            expected = self._expected
            if expected is not None:
                self._process.soon(lambda: expected.resolve(None))

        self._client_at = max(self._client_at + _BRIEFLY, world.now + network.delay())
        world.at(self._client_at, arrived)

    def _sever(self) -> None:
        """Only the server comes to notice: it asks now and then whether the client is there."""
        if self.severed:
            return
        self.severed = True
        world, session = self._database.world, self.session
        self._database.cut_off(session)
        world.after(
            world.random.choice(NOTICED_AFTER), lambda: self._database.end(session, silently=True)
        )
