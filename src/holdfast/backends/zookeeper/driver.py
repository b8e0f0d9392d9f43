"""kazoo's client as it is used here: its connection, session, logins and TLS; our own requests.

Nothing of ours runs on a thread of its own but what rings: callbacks are called on kazoo's one
connection thread. kazoo's public methods wait one by one and retry by themselves, so requests go
into its queue directly: several at once, each answered in order.
"""

from __future__ import annotations

import logging
import select
import socket
import ssl
from collections.abc import Callable
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.handlers.utils import selector_select
from kazoo.protocol import serialization
from kazoo.protocol.connection import ConnectionHandler
from kazoo.retry import KazooRetry

from holdfast.backends.zookeeper.settings import Settings
from holdfast.runtimes.clock import now

LOGGER: Final = logging.getLogger("holdfast.zookeeper")
LOGGER.addHandler(logging.NullHandler())  # every try to reconnect is told: not on the screen
EPHEMERAL: Final = 1
SEQUENCE: Final = 2
_CONTAINER: Final = 4
CONNECTS_PER_SESSION: Final = 6
"""How many servers, one after the other, may fail to answer before a session is over."""
_ENOUGH: Final = 1000
"""Descriptors above this are too large for select()."""


class CreateContainer(serialization.Create2):  # type: ignore[misc]  # kazoo has no types
    """A node that the server removes once its last child is gone."""

    type = 19


THROUGH_LEADER: Final = frozenset(
    {
        serialization.Sync.type,
        serialization.Create2.type,
        CreateContainer.type,
        serialization.Delete.type,
        serialization.SetData.type,
        serialization.Transaction.type,
    }
)
"""Requests that are only answered once the leader had them."""


def plain(path: str, acl: Any) -> Any:
    return serialization.Create2(path, b"", acl, 0)


def container(path: str, acl: Any) -> CreateContainer:
    return CreateContainer(path, b"", acl, _CONTAINER)


class Handler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """No queues of callbacks and no threads for them: ours only ring."""

    def __init__(self, connect_limit: float, tls: ssl.SSLContext | None) -> None:
        super().__init__()
        self.connect_limit = connect_limit
        self._tls = tls

    def start(self) -> None:
        self._running = True

    def stop(self) -> None:
        self._running = False

    def dispatch_callback(self, callback: Any) -> None:
        callback.func(*callback.args)

    def create_connection(
        self, address: tuple[str, int], hostname: str, timeout: float, **_: Any
    ) -> socket.socket:
        """On one server that is not there kazoo would spend a whole session."""
        bare = socket.create_connection(address, min(timeout, self.connect_limit))
        try:
            bare.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return self._tls.wrap_socket(bare, server_hostname=hostname) if self._tls else bare
        except BaseException:
            bare.close()
            raise

    def select(self, *args: Any, **kwargs: Any) -> Any:
        """For every message kazoo makes a selector; few programs need one."""
        lists = args[:3]
        if any(each.fileno() >= _ENOUGH for ready in lists for each in ready):
            return selector_select(*args, **kwargs)
        return select.select(*args, **kwargs)


class Connection(ConnectionHandler):  # type: ignore[misc]  # kazoo has no types
    """Tells when a session was confirmed and for how long, and sends more than pings."""

    confirmed: Callable[[float, float], None]
    """When the first request of a connection was sent, and the timeout that was granted."""
    beat: Callable[[], None]

    def _invoke(self, timeout: float, request: Any, xid: Any = None) -> Any:
        """For a server that is just starting kazoo would wait until the session is over."""
        sent = now()
        answer = super()._invoke(min(timeout, self.handler.connect_limit), request, xid)
        if isinstance(request, serialization.Connect):
            result, _ = answer
            if result.time_out > 0:
                self.confirmed(sent, result.time_out / 1000)
        return answer

    def _connect(self, host: Any, hostip: Any, port: Any) -> tuple[float, float]:
        """An idle server is pinged every third of a session by kazoo: it shall be every quarter."""
        read_timeout, connect_timeout = super()._connect(host, hostip, port)
        return read_timeout * 3 / 4, connect_timeout

    def _send_ping(self, connect_timeout: Any) -> None:
        super()._send_ping(connect_timeout)
        self.beat()

    def drop_descriptors(self) -> None:
        """In a forked child: our copies are closed, so that the parent's end is seen as its end."""
        for each in (self._socket, self._read_sock, self._write_sock):
            if each is not None:
                with_fd: socket.socket = each
                with_fd.close()


def make_client(settings: Settings) -> KazooClient:
    """Not started yet."""
    connect_limit = max(1.0, settings.session_timeout / CONNECTS_PER_SESSION)
    handler = Handler(connect_limit, settings.tls)
    client = KazooClient(
        hosts=",".join(settings.hosts),
        timeout=settings.session_timeout,
        handler=handler,
        logger=LOGGER,
        auth_data=[("digest", settings.login)] if settings.login else None,
        connection_retry=KazooRetry(
            max_tries=-1, delay=0.05, backoff=2, max_jitter=0.4, max_delay=0.5
        ),
        use_ssl=settings.tls is not None,
    )
    client._connection = Connection(client, client._conn_retry.copy(), logger=client.logger)
    return client
