"""kazoo's client as it is used here: its connection, session, logins and TLS; our own requests.

Callbacks run on kazoo's one connection thread; ours only ring a signal, so they need no thread of
their own. kazoo's public methods wait one by one and retry by themselves, so our requests go onto
its connection directly: several at once, each answered in order.
"""

from __future__ import annotations

import logging
import select
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.handlers.utils import selector_select
from kazoo.protocol.serialization import Auth, Connect
from kazoo.retry import KazooRetry

from locknut.backends.zookeeper.kazoo_connection import Connection
from locknut.backends.zookeeper.requests import Batch
from locknut.backends.zookeeper.settings import Settings
from locknut.runtimes import sockets

LOGGER: Final = logging.getLogger("locknut.zookeeper")
LOGGER.addHandler(logging.NullHandler())  # it logs every attempt to reconnect: not on the screen
CONNECTS_PER_SESSION: Final = 6
"""How many servers in a row may fail to answer before a session is over."""
_ENOUGH: Final = 1000
"""Descriptors above this are too large for select()."""


def _hide_secrets(record: logging.LogRecord) -> bool:
    """Hide what kazoo logs as it is: a login has our password, and Connect that of the session.
    What it logs below DEBUG has them in several forms, and is left out.
    """
    if isinstance(record.args, tuple):
        record.args = tuple(
            type(each).__name__ if isinstance(each, Auth | Connect) else each
            for each in record.args
        )
    return record.levelno >= logging.DEBUG


LOGGER.addFilter(_hide_secrets)


class Handler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """A handler without queues and threads for callbacks, because ours only ring."""

    idle: Callable[[float], list[Any]]
    """How kazoo's thread waits for what comes next."""

    def __init__(self, connect_limit: float, tls: ssl.SSLContext | None) -> None:
        super().__init__()
        self.connect_limit = connect_limit
        self._tls = tls

    def start(self) -> None:
        self._running = True

    def stop(self) -> None:
        self._running = False

    def dispatch_callback(self, callback: Any) -> None:
        try:
            callback.func(*callback.args)
        except Exception:  # the connection's thread has to go on
            LOGGER.exception("a watch could not be answered")

    def create_socket_pair(self) -> tuple[socket.socket, socket.socket]:
        """Noted at once: a process may fork before kazoo has put them where we find them."""
        return sockets.open_pair()

    def create_connection(
        self, address: tuple[str, int], hostname: str, timeout: float, **_: Any
    ) -> socket.socket:
        """Connect within `connect_limit`: kazoo would spend a whole session on a dead server."""
        bare = sockets.connected(address, min(timeout, self.connect_limit))
        try:
            bare.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return sockets.encrypted(bare, self._tls, hostname) if self._tls else bare
        except BaseException:
            bare.close()
            raise

    def select(self, *args: Any, **kwargs: Any) -> Any:
        """Only kazoo's thread, between two messages, listens to two sockets: it waits in `idle`."""
        if len(args[0]) == 2:
            return self.idle(args[3]), [], []
        return self.wait(*args, **kwargs)

    def wait(self, *args: Any, **kwargs: Any) -> Any:
        """Use select() where it is enough: kazoo would make a selector for every message."""
        if any(each.fileno() >= _ENOUGH for ready in args[:2] for each in ready):
            return selector_select(*args, **kwargs)
        return select.select(*args, **kwargs)


class SharedKazooClient(KazooClient):  # type: ignore[misc]  # kazoo has no types
    """kazoo's client, with a connection that callers may send on."""

    def __init__(self, settings: Settings, now: Callable[[], float]) -> None:
        connect_limit = max(1.0, settings.session_timeout / CONNECTS_PER_SESSION)
        super().__init__(
            hosts=",".join(settings.hosts),
            timeout=settings.session_timeout,
            handler=Handler(connect_limit, settings.tls),
            logger=LOGGER,
            auth_data=[("digest", settings.login)] if settings.login else None,
            connection_retry=KazooRetry(
                max_tries=-1, delay=0.05, backoff=2, max_jitter=0.4, max_delay=0.5
            ),
            use_ssl=settings.tls is not None,
        )
        self._connection = Connection(self, self._conn_retry.copy(), LOGGER, now)

    def send(self, requests: Sequence[Any], batch: Batch) -> None:
        """Send the requests, or leave them to kazoo's thread if we cannot."""
        if not self._connection.send(requests, batch):
            for request in requests:
                self._call(request, batch)

    def sending(self) -> bool:
        sending: bool = self._connection.sending()
        return sending

    @property
    def turned_away(self) -> bool:
        return self._connection.turned_away

    @property
    def ended(self) -> bool:
        """Whether its thread has died of an unexpected error."""
        thread = self._connection._connection_routine
        return thread is not None and not thread.is_alive()

    def _notify_pending(self, state: Any) -> None:
        """The connection is gone: stop new senders first, then fail the pending requests."""
        self._connection.stop_flowing()
        super()._notify_pending(state)
