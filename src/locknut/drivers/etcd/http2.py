"""One HTTP/2 connection as gRPC needs it (RFC 9113), without its socket: bytes in, bytes out.

Only what a client of etcd meets is here: no pushed streams, no priorities, and heads that nobody
remembers. Whoever owns the socket sends what `take_output` gives, and feeds what it receives.
"""

from __future__ import annotations

from collections import deque
from struct import Struct
from typing import Final

from locknut.drivers.etcd.calls import Stream, framed
from locknut.drivers.etcd.hpack import Heads

_DATA, _HEADERS, _RESET, _SETTINGS, _PING, _GOAWAY, _WINDOW, _CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
_ACK = _END_STREAM = 0x1
_END_HEADERS: Final = 0x4
_PADDED: Final = 0x8
_PRIORITY: Final = 0x20
_MOST_STREAMS: Final = 3
_FIRST_WINDOW: Final = 4
POLITE: Final = 1.0
"""Seconds within which a word of the server is acknowledged while the connection is in use."""
_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_WIDEST: Final = 2**31 - 1
_REPLENISH: Final = 2**30
"""Bytes that were received until the window, which is as wide as can be, is opened again."""
_LONGEST_FRAME: Final = 16384
"""What neither side may exceed unless the other has allowed it; we do not, and need no more."""
_LONGEST_HEAD: Final = 1 << 20
"""Bytes; what sends more does so without end."""
CANCEL: Final = 8
REFUSED: Final = 7
"""Codes of a reset: we do not want the rest; the server has not begun with it."""
UNTOUCHED: Final = -1
"""A status of ours: the server has surely not begun with the request."""
_HEAD: Final = Struct(">IBI")
_NUMBER: Final = Struct(">I")
_SETTING: Final = Struct(">HI")


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return _HEAD.pack(len(payload) << 8 | kind, flags, stream) + payload


class Http2:
    """The state of one connection."""

    def __init__(self) -> None:
        self.streams: dict[int, Stream] = {}
        """Those that are open."""
        self.waiting: deque[tuple[Stream, bytes]] = deque()
        """Those that the server has no room for yet."""
        self.leaving = False
        """No more streams are to be opened here."""
        self.greeted = False
        """Whether the server has shown that it speaks HTTP/2."""
        self.pongs = 0
        """How many of our pings were answered."""
        self._heads = Heads()
        self._input = b""
        self._block = b""
        self._block_of: tuple[int, int] = (0, 0)
        self._next = 1
        self._most = _WIDEST
        self._first_window = 65535
        self._window = 65535
        self._received = 0
        self._blocked: list[Stream] = []
        self._output: list[bytes] = []
        settings = _SETTING.pack(1, 0) + _SETTING.pack(2, 0)
        settings += _SETTING.pack(_FIRST_WINDOW, _WIDEST)
        self._begun = False
        self._thanks = [
            _PREFACE,
            frame(_SETTINGS, 0, 0, settings),
            frame(_WINDOW, 0, 0, _NUMBER.pack(_WIDEST - 65535)),
        ]
        """What goes before all requests, but need not go at once."""

    def take_output(self, *, thanks: bool = True) -> bytes:
        """What is to be sent now; without `thanks`, only what somebody waits for."""
        if thanks or not self._begun:
            output = b"".join((*self._thanks, *self._output))
            self._begun = True
            self._thanks.clear()
        else:
            output = b"".join(self._output)
        self._output.clear()
        return output

    @property
    def has_output(self) -> bool:
        return bool(self._output or self._thanks)

    @property
    def presses(self) -> bool:
        """Whether somebody waits for what is to be sent. The rest need not go at once: after a
        request etcd asks for a sign of life, by which it measures how fast the way is, and where
        that is answered right away it asks again after the next request.
        """
        return bool(self._output)

    # Sending.

    def open(self, stream: Stream, head: bytes, message: bytes, *, last: bool = True) -> None:
        """Begin a call. `last`: there will be no other message from us."""
        stream.unsent = framed(message)
        stream.last = last
        if len(self.streams) >= self._most:
            self.waiting.append((stream, head))
        else:
            self._open(stream, head)

    def _open(self, stream: Stream, head: bytes) -> None:
        stream.id, self._next = self._next, self._next + 2
        stream.window = self._first_window
        self.streams[stream.id] = stream
        number, unsent = stream.id, stream.unsent
        opened = _HEAD.pack(len(head) << 8 | _HEADERS, _END_HEADERS, number) + head
        if self._next >= _WIDEST:
            self.leaving = True
        size = len(unsent)
        if stream.last and size <= min(_LONGEST_FRAME, stream.window, self._window):
            self._window -= size  # as a rule: all of it at once, as `_send` would in more steps
            stream.window -= size
            stream.unsent = b""
            data = _HEAD.pack(size << 8 | _DATA, _END_STREAM, number)
            self._output.append(opened + data + unsent)
        else:
            self._output.append(opened)
            self._send(stream)

    def add(self, stream: Stream, message: bytes) -> None:
        """Another message of a call that is open."""
        stream.unsent += framed(message)
        if stream.id and stream not in self._blocked:
            self._send(stream)

    def _send(self, stream: Stream) -> None:
        """As much as the server takes."""
        while unsent := stream.unsent:
            size = min(len(unsent), _LONGEST_FRAME, self._window, stream.window)
            if size <= 0:
                self._blocked.append(stream)
                return
            self._window -= size
            stream.window -= size
            stream.unsent = unsent[size:]
            flags = _END_STREAM if stream.last and size == len(unsent) else 0
            self._output.append(frame(_DATA, flags, stream.id, unsent[:size]))

    def _unblock(self) -> None:
        blocked, self._blocked = self._blocked, []
        for stream in blocked:
            if stream.id in self.streams:
                self._send(stream)

    def cancel(self, stream: Stream) -> None:
        """We do not wait for its answer any more. What it asks for may be done all the same."""
        if self.streams.pop(stream.id, None) is not None:
            self._output.append(frame(_RESET, 0, stream.id, _NUMBER.pack(CANCEL)))
            self._open_waiting()
        else:
            self.waiting = deque(each for each in self.waiting if each[0] is not stream)

    def ping(self) -> None:
        self._output.append(frame(_PING, 0, 0, b"locknut."))

    # Receiving.

    def feed(self, data: bytes) -> None:
        """ValueError or OSError: the other side does not speak as it should; then nothing counts
        any more.
        """
        data = self._input + data if self._input else data
        at, end = 0, len(data)
        while end - at >= 9:
            sized, flags, stream = _HEAD.unpack_from(data, at)
            size = sized >> 8
            if size > _LONGEST_FRAME or not (self.greeted or sized & 0xFF == _SETTINGS):
                raise ConnectionAbortedError("it does not answer like an etcd")
            if end - at - 9 < size:
                break
            at += 9 + size
            take = _TAKERS.get(sized & 0xFF)
            if take is not None:  # others are to be ignored
                take(self, stream & _WIDEST, flags, data[at - size : at])
        self._input = data[at:]

    def _begin_head(self, stream: int, flags: int, payload: bytes) -> None:
        if flags & _PADDED:
            payload = _unpadded(flags, payload)
        self._block = payload[5:] if flags & _PRIORITY else payload
        self._block_of = stream, flags
        if flags & _END_HEADERS:
            self._head()

    def _continue_head(self, _: int, flags: int, payload: bytes) -> None:
        self._block += payload
        if len(self._block) > _LONGEST_HEAD:
            raise ConnectionAbortedError("it does not answer like an etcd")
        if flags & _END_HEADERS:
            self._head()

    def _pinged(self, _: int, flags: int, payload: bytes) -> None:
        if flags & _ACK:
            self.pongs += 1
        else:
            self._thanks.append(frame(_PING, _ACK, 0, payload))

    def _reset(self, stream: int, _: int, payload: bytes) -> None:
        refused = _first_number(payload) == REFUSED
        self._ended(stream, UNTOUCHED if refused else 1, "the request was reset")

    def _data(self, number: int, flags: int, payload: bytes) -> None:
        size = len(payload)
        self._received += size
        if self._received > _REPLENISH:
            self._thanks.append(frame(_WINDOW, 0, 0, _NUMBER.pack(self._received)))
            self._received = 0
        stream = self.streams.get(number)
        if stream is None:
            return  # we have cancelled it
        stream.received += size
        if stream.received > _REPLENISH:
            self._thanks.append(frame(_WINDOW, 0, number, _NUMBER.pack(stream.received)))
            stream.received = 0
        stream.take(_unpadded(flags, payload) if flags & _PADDED else payload)
        if flags & _END_STREAM:
            self._ended(number, 2, "the answer has no status")

    def _head(self) -> None:
        number, flags = self._block_of
        found = self._heads.unpack(self._block)
        status = found.get(b":status", b"200")
        if status != b"200":
            self._ended(number, 14, f"HTTP status {status.decode(errors='replace')}")
        elif flags & _END_STREAM:
            code = found.get(b"grpc-status", b"2")
            text = found.get(b"grpc-message", b"").decode(errors="replace")
            # What is no number is no status: then it is not known what was done.
            self._ended(number, int(code) if code.isdigit() else 2, text)

    def _settings(self, _: int, flags: int, payload: bytes) -> None:
        self.greeted = True
        if flags & _ACK:
            return
        if len(payload) % _SETTING.size:
            raise _cut_short()
        for what, value in _SETTING.iter_unpack(payload):
            if what == _MOST_STREAMS:
                self._most = value
            elif what == _FIRST_WINDOW:
                for stream in self.streams.values():
                    stream.window += value - self._first_window
                self._first_window = value
        self._output.append(frame(_SETTINGS, _ACK, 0))
        self._unblock()
        self._open_waiting()

    def _widen(self, number: int, _: int, payload: bytes) -> None:
        size = _first_number(payload)
        if number == 0:
            self._window += size
        elif number in self.streams:
            self.streams[number].window += size
        if self._blocked:
            self._unblock()

    def _go_away(self, _: int, __: int, payload: bytes) -> None:
        last = _first_number(payload) & _WIDEST
        self.leaving = True
        while self.waiting:  # first, or the end of another would open them
            self.waiting.popleft()[0].end(UNTOUCHED, "the server is leaving")
        for number in [number for number in self.streams if number > last]:
            self._ended(number, UNTOUCHED, "the server is leaving")

    def _ended(self, number: int, status: int, text: str) -> None:
        stream = self.streams.pop(number, None)
        if stream is not None:
            stream.end(status, text)
            self._open_waiting()

    def _open_waiting(self) -> None:
        while self.waiting and len(self.streams) < self._most:
            self._open(*self.waiting.popleft())


_TAKERS: Final = {
    _DATA: Http2._data,
    _HEADERS: Http2._begin_head,
    _RESET: Http2._reset,
    _SETTINGS: Http2._settings,
    _PING: Http2._pinged,
    _GOAWAY: Http2._go_away,
    _WINDOW: Http2._widen,
    _CONTINUATION: Http2._continue_head,
}


def _first_number(payload: bytes) -> int:
    if len(payload) < _NUMBER.size:
        raise _cut_short()
    found: int = _NUMBER.unpack_from(payload)[0]
    return found


def _unpadded(flags: int, payload: bytes) -> bytes:
    if not flags & _PADDED:
        return payload
    if not payload or payload[0] >= len(payload):
        raise _cut_short()
    return payload[1 : len(payload) - payload[0]]


def _cut_short() -> ValueError:
    return ValueError("a frame that is cut short")
