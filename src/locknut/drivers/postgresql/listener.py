"""A thread that listens on one channel of the server, for as long as somebody wants to hear it."""

from __future__ import annotations

import select
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import psycopg

from locknut.drivers.postgresql import exchange
from locknut.drivers.postgresql.primary import Primary
from locknut.drivers.postgresql.server_session import Session, open_session
from locknut.drivers.postgresql.settings import Settings
from locknut.errors import LocknutError
from locknut.runtimes import cpython, sockets
from locknut.runtimes.clock import now

PAUSE: Final = 0.2
"""Seconds between two tries to reach the server: whoever waits looks by itself meanwhile."""
LOOK: Final = 5.0
"""Seconds after which the thread looks whether it is still needed."""


class Listener:
    """One channel. What is heard is passed on, from this thread."""

    def __init__(
        self,
        settings: Settings,
        primary: Primary,
        channel: str,
        heard: Callable[[str], None],
        needed: Callable[[], bool],
    ):
        self._settings = settings
        self._primary = primary
        self._channel = channel
        self._heard = heard
        """Called with each message, and with "" when there may have been others before."""
        self._needed = needed
        self.since: float | None = None
        """From when on nothing was missed."""
        self._stop, self._stopped = sockets.open_pair()
        # Not waited for: an interrupt (Ctrl-C) in that wait may look as if there were no thread.
        cpython.UnawaitedThread(target=self._run, name="locknut-listener", daemon=True).start()

    def stop(self) -> None:
        """The thread ends soon; nobody waits for it."""
        with suppress(OSError):
            self._stop.send(b"x")

    def _run(self) -> None:
        try:
            while self._needed() and not self._listened():
                if self._waits(PAUSE):
                    return
        finally:
            self._stop.close()
            self._stopped.close()

    def _listened(self) -> bool:
        """Listen until there is no need to; False if the server is gone, or another."""
        try:
            session = open_session(self._settings, self._primary)
        except LocknutError:
            return False
        try:
            return session.pooled or self._listen(session)
        except (psycopg.Error, OSError, exchange.Refused):
            return False
        finally:
            self.since = None
            session.close()

    def _waits(self, seconds: float) -> bool:
        """Whether it is to stop, after so long at most."""
        poll = select.poll()
        poll.register(self._stopped, select.POLLIN)
        return bool(poll.poll(seconds * 1000))

    def _listen(self, session: Session) -> bool:
        """Until it is to stop; False if the server is another by now."""
        limit = self._settings.limit
        listen = exchange.plain(session.connection, f'LISTEN "{self._channel}"')
        session.drive(listen, now() + limit)
        self.since = now()
        self._heard("")
        poll = select.poll()
        poll.register(self._stopped, select.POLLIN)
        poll.register(session.fd, select.POLLIN)
        while self._needed() and session.epoch == self._primary.epoch:
            ready = {descriptor for descriptor, _ in poll.poll(LOOK * 1000)}
            if self._stopped.fileno() in ready:
                return True
            if session.fd in ready:
                session.connection.consume_input()
            while (notice := session.connection.notifies()) is not None:
                self._heard(notice.extra.decode(errors="replace"))
        return session.epoch == self._primary.epoch
