"""kazoo's connection, on which callers send for themselves and much is read at once.

By itself kazoo passes every request to its thread, polls before each read and write, and reads one
message at a time. Here:

1. The caller's thread sends its own requests, several in one write (`send`).
2. What does not fit into the socket goes into `_outgoing`, and kazoo's thread sends it when there
   is room (`_flush`).
3. kazoo's thread reads all that has come at once, and handles the answers to our own requests in a
   few steps (`_read_ours`). It leaves all other messages to kazoo.
4. Nobody ever waits while holding the mutex.
5. With TLS everything goes kazoo's way, because two threads cannot share a TLS socket.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from kazoo.exceptions import EXCEPTIONS, ConnectionDropped, NoNodeError
from kazoo.protocol.connection import ConnectionHandler
from kazoo.protocol.serialization import Connect, Exists, GetChildren

from locknut.backends.zookeeper.requests import Batch
from locknut.runtimes.threads import Guard

_CHUNK: Final = 65536
_LENGTH: Final = struct.Struct("!i")
_HEAD: Final = struct.Struct("!iii")
_REPLY: Final = struct.Struct("!iqi")
_LAST_XID: Final = 2**31 - 1


class Connection(ConnectionHandler):  # type: ignore[misc]  # kazoo has no types
    """A connection that tells when a session was confirmed, and on which callers send."""

    confirmed: Callable[[float, float, float, bool], None]
    """When the first request of a connection was sent and answered, the timeout that was granted,
    and whether the session is a new one.
    """
    beat: Callable[[], float]
    """Proves the session's life if it is time to; returns how long until the next time."""
    _xid: int | None

    def __init__(self, client: Any, retry: Any, logger: Any, now: Callable[[], float]) -> None:
        super().__init__(client, retry, logger=logger)
        self._now = now
        client.handler.idle = self._idle
        self._mutex = Guard()
        self.sending = self._mutex.inside
        """Whether this thread is sending right now: then the code that asks interrupted it."""
        self._flowing = False
        """Whether callers may send: not before the login, not after the connection ended, not with
        TLS."""
        self._incoming = bytearray()
        self._outgoing = bytearray()
        self.turned_away = False
        """Whether the last server that we reached closed the connection without an answer."""
        self._came = False
        self._apart: float | None = None
        """Since when there is no connection."""

    def send(self, requests: Sequence[Any], batch: Batch) -> bool:
        """Send from any thread, without waiting; return False if kazoo's thread has to send."""
        with self._mutex:
            # Requests that kazoo's thread was left with while there was no connection go first:
            # otherwise the create of a claim could arrive after the delete that withdraws it.
            if not self._flowing or self.client._queue:
                return False
            try:
                self._push(b"".join([self._frame(request, batch) for request in requests]))
            except OSError:
                return True  # the thread notices it as well, and fails all pending requests
            except BaseException:  # Ctrl-C, perhaps after half a request: we cannot go on with it
                with suppress(OSError):
                    self._socket.shutdown(socket.SHUT_RDWR)
                raise
            bell = self._write_sock if self._outgoing else None
        if bell is not None:
            with suppress(OSError):  # closed since then, and with it all that was pending
                bell.send(b"\0")
        return True

    def stop_flowing(self) -> None:
        with self._mutex:
            self._flowing = False

    def drop_descriptors(self) -> None:
        """Close our copies in a forked child, so that the servers see when the parent ends."""
        for each in (self._socket, self._read_sock, self._write_sock):
            if each is not None:
                each.close()

    # With the mutex.

    def _frame(self, request: Any, slot: Any) -> bytes:
        """Pack a request and note it as pending before it is sent: answers come in that order."""
        body: bytes = request.serialize()
        xid = self._xid = (self._xid or 0) % _LAST_XID + 1
        self.client._pending.append((request, slot, xid))
        return _HEAD.pack(len(body) + 8, xid, request.type) + body

    def _push(self, data: bytes) -> None:
        sent = 0
        if not self._outgoing:
            try:
                sent = self._socket.send(data)
            except BlockingIOError:
                sent = 0
        if sent < len(data):
            self._outgoing += data[sent:]

    # On kazoo's thread.

    def _connect(self, host: Any, hostip: Any, port: Any) -> tuple[float, float]:
        """Connect; and ping an idle server every quarter of a session, where kazoo does every
        third.
        """
        self._incoming, self._outgoing = bytearray(), bytearray()
        self._came = False
        self._forget_if_over()
        try:
            read_timeout, connect_timeout = super()._connect(host, hostip, port)
        except ConnectionDropped as error:
            # A server that hangs up at once may do so before we know that we are connected.
            if isinstance(error.__context__, BrokenPipeError | ConnectionResetError):
                self._came = True
            raise
        finally:
            self.turned_away = self._came
        self._apart = None
        with self._mutex:
            self._flowing = not self.client.use_ssl
        return read_timeout * 3 / 4, connect_timeout

    def _forget_if_over(self) -> None:
        """A server turns away clients that have seen newer data than it has. Servers that lost
        their data would turn us away for ever, so once our session is over we forget what we have
        seen.
        """
        if self._apart is None:
            self._apart = self._now()
        elif self.turned_away and self._now() - self._apart > self.client._session_timeout / 1000:
            self.client.last_zxid = 0

    def _invoke(self, timeout: float, request: Any, xid: Any = None) -> Any:
        """Limit the wait: for a server that is just starting, kazoo would wait a whole session."""
        sent = self._now()
        first = isinstance(request, Connect)
        try:
            answer = super()._invoke(min(timeout, self.handler.connect_limit), request, xid)
        except ConnectionDropped:
            self._came = first
            raise
        if first:
            result, _ = answer
            if result.time_out > 0:
                self.confirmed(sent, self._now(), result.time_out / 1000, not request.session_id)
        return answer

    def _send_request(self, read_timeout: Any, connect_timeout: Any) -> None:
        """Send what did not fit into the socket before, and what was put into kazoo's queue."""
        if self.client.use_ssl:
            super()._send_request(read_timeout, connect_timeout)
            return
        self._read_sock.recv(1)
        with self._socket_error_handling():
            with self._mutex:
                while self.client._queue:  # all: Ctrl-C may have come before a wake-up
                    self._push(self._frame(*self.client._queue.popleft()))
            self._flush(connect_timeout)

    def _write(self, msg: bytes, timeout: Any) -> None:
        if self.client.use_ssl:
            super()._write(msg, timeout)
            return
        with self._socket_error_handling():
            with self._mutex:
                self._push(msg)
            self._flush(timeout)

    def _flush(self, timeout: Any) -> None:
        while self._outgoing:
            if not self.handler.select([], [self._socket], [], timeout)[1]:
                raise self.handler.timeout_exception("socket time-out during write")
            with self._mutex:
                del self._outgoing[: self._socket.send(self._outgoing)]

    def _read(self, length: int, timeout: Any) -> bytes:
        if self.client.use_ssl:
            plain: bytes = super()._read(length, timeout)
            return plain
        with self._socket_error_handling():
            while len(self._incoming) < length:
                self._receive(timeout)
        data = bytes(self._incoming[:length])
        del self._incoming[:length]
        return data

    def _receive(self, timeout: Any) -> None:
        while not self._take():
            if not self.handler.select([self._socket], [], [], timeout)[0]:
                raise self.handler.timeout_exception("socket time-out during read") from None

    def _take(self) -> bool:
        """Read what is there now; return False if nothing is."""
        try:
            chunk = self._socket.recv(_CHUNK)
        except BlockingIOError:
            return False
        if not chunk:
            raise ConnectionDropped("socket connection broken")
        self._incoming += chunk
        return True

    def _idle(self, timeout: float) -> list[Any]:
        """Wait for the next message, and handle the answers to our own requests right here. Return
        the sockets that kazoo itself has to look after, if any.
        """
        ears, select = [self._socket, self._read_sock], self.handler.wait
        end = time.monotonic() + timeout
        while timeout > 0:
            ready: list[Any] = select(ears, [], [], min(timeout, self.beat()))[0]
            if not ready:
                timeout = end - time.monotonic()
                continue
            if self.client.use_ssl or len(ready) != 1 or ready[0] is not self._socket:
                return ready
            self._take()
            if not self._read_all_ours():
                return ready
            timeout = end - time.monotonic()
        return []

    def _read_socket(self, read_timeout: Any) -> Any:
        """Read all that has come: no socket becomes ready for what lies in our own buffer."""
        if self.client.use_ssl:
            return super()._read_socket(read_timeout)
        with self._socket_error_handling():
            self._take()
        response = None
        while response is None and not self._read_all_ours():
            response = super()._read_socket(read_timeout)
        return response

    def _read_all_ours(self) -> bool:
        """Handle the answers to our own requests; return False at a message that is kazoo's."""
        while self._whole():
            if not self._read_ours():
                return False
        return True

    def _whole(self) -> bool:
        incoming = self._incoming
        return len(incoming) >= 4 and len(incoming) >= 4 + _LENGTH.unpack_from(incoming)[0]

    def _read_ours(self) -> bool:
        """Handle one answer to a request of ours; return False if the message is kazoo's."""
        incoming, pending = self._incoming, self.client._pending
        xid, zxid, error = _REPLY.unpack_from(incoming, 4)
        if xid <= 0 or not pending or pending[0][2] != xid or type(pending[0][1]) is not Batch:
            return False
        request, batch, _ = pending.popleft()
        end = 4 + _LENGTH.unpack_from(incoming)[0]
        message = bytes(incoming[4:end])
        del incoming[:end]
        if zxid > 0:
            self.client.last_zxid = zxid
        if error and not (error == NoNodeError.code and type(request) is Exists):
            batch.set_exception(EXCEPTIONS[error]())
            return True
        try:
            answer = None if error else request.deserialize(message, _REPLY.size)
        except Exception as problem:  # noqa: BLE001  # whatever it is, this thread has to go on
            batch.set_exception(problem)
            return True
        self._heed(request)  # first: with the answer, the caller may drop the watch at once
        batch.set(answer)
        return True

    def _heed(self, request: Any) -> None:
        watcher = getattr(request, "watcher", None)
        if watcher is not None and not self.client._stopped.is_set():
            children = isinstance(request, GetChildren)
            watchers = self.client._child_watchers if children else self.client._data_watchers
            watchers[request.path].add(watcher)
