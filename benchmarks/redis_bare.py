"""The limits on Redis: bare sockets with bytes that were packed beforehand, in both colours.

They are no libraries: no reconnecting, no time limit, nothing about waiters that died. `PAIR` is
the least that a fenced lock has to do when nobody waits; `GRANT` hands over to the first in a list,
who sleeps in BLPOP on an inbox of its own.
"""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import hiredis

from benchmarks import holding
from benchmarks.kinds import Opened, Pair

TTL_MS = 30_000


class Scripts(NamedTuple):
    """KEYS: the hold, the fence, the line. ARGV: whose it is, the ttl."""

    acquire: str
    release: str


PAIR = Scripts(
    """
if redis.call('exists', KEYS[1]) == 1 then return 0 end
redis.call('hset', KEYS[1], 'owner', ARGV[1])
redis.call('pexpire', KEYS[1], ARGV[2])
return redis.call('incr', KEYS[2])
""",
    """
if redis.call('hget', KEYS[1], 'owner') ~= ARGV[1] then return 0 end
redis.call('del', KEYS[1])
redis.call('publish', KEYS[1], '1')
return 1
""",
)
GRANT = Scripts(
    """
if redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return redis.call('incr', KEYS[2])
end
redis.call('rpush', KEYS[3], ARGV[1])
return 0
""",
    """
if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
local first = redis.call('lpop', KEYS[3])
if not first then
  redis.call('del', KEYS[1])
  return 1
end
redis.call('set', KEYS[1], first, 'PX', ARGV[2])
redis.call('lpush', first, redis.call('incr', KEYS[2]))
return 1
""",
)


def packed(*words: str | bytes | int) -> bytes:
    parts = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    bulk = b"".join(b"$%d\r\n%b\r\n" % (len(part), part) for part in parts)
    return b"*%d\r\n%b" % (len(parts), bulk)


class Packed(NamedTuple):
    """The three commands of one caller of one name."""

    acquire: bytes
    release: bytes
    wait: bytes


def _commands(name: str, shas: tuple[bytes, bytes]) -> Packed:
    inbox = f"bare:{name}:{os.urandom(8).hex()}"
    keys = (f"bare:{name}", f"bare:{name}:fence", f"bare:{name}:line")
    acquire, release = (packed("EVALSHA", sha, 3, *keys, inbox, TTL_MS) for sha in shas)
    return Packed(acquire, release, packed("BLPOP", inbox, 0))


def _address(url: str) -> tuple[str, int]:
    place = urlsplit(url)
    assert place.hostname is not None
    assert place.port is not None
    return place.hostname, place.port


class BareSocket:
    """One blocking connection."""

    def __init__(self, url: str):
        self._socket = socket.create_connection(_address(url))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader = hiredis.Reader()

    def ask(self, commands: bytes, count: int = 1) -> Any:
        """The answer to the last of so many commands."""
        self._socket.sendall(commands)
        while True:
            self._reader.feed(self._socket.recv(4096))
            while (answer := self._reader.gets()) is not False:
                count -= 1
                if not count:
                    return answer


def loaded(url: str, scripts: Scripts) -> tuple[bytes, bytes]:
    """The names of the scripts, which the server has now."""
    wire = BareSocket(url)
    return wire.ask(packed("SCRIPT", "LOAD", scripts.acquire)), wire.ask(
        packed("SCRIPT", "LOAD", scripts.release)
    )


def blocking(url: str, scripts: Scripts) -> Opened:
    """A socket for each caller, which is also where it waits."""
    shas = loaded(url, scripts)

    def opened(name: str) -> Pair:
        wire, words = BareSocket(url), _commands(name, shas)

        def acquire() -> None:
            if not wire.ask(words.acquire):
                wire.ask(words.wait)

        def release() -> None:
            wire.ask(words.release)

        return Pair(acquire, release)

    return opened


def batch(url: str) -> Opened:
    """One thread that renews all that is held in one write, three times per expiry."""
    wire, renewer, ttl_ms = BareSocket(url), BareSocket(url), round(holding.TTL * 1000)
    held: dict[str, bytes] = {}

    def renew() -> None:
        while True:
            time.sleep(holding.TTL / 3)
            renewer.ask(b"".join(held.values()), len(held))

    threading.Thread(target=renew, daemon=True).start()

    def opened(name: str) -> Pair:
        def acquire() -> None:
            wire.ask(packed("SET", name, "bare", "NX", "PX", ttl_ms))
            held[name] = packed("PEXPIRE", name, ttl_ms)

        def release() -> None:
            del held[name]
            if wire.ask(packed("DEL", name)) != 1:
                raise KeyError(name)

        return Pair(acquire, release)

    return opened


class BareStream(asyncio.Protocol):
    """One connection of an event loop; what is asked in one turn of the loop is one write."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._reader = hiredis.Reader()
        self._answers: deque[asyncio.Future[Any]] = deque()
        self._unsent: list[bytes] = []
        self._write: Callable[[bytes], None] | None = None

    def connection_made(self, transport: Any) -> None:
        self._write = transport.write
        if self._unsent:
            self._flush()

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        while (answer := self._reader.gets()) is not False:
            self._answers.popleft().set_result(answer)

    def ask(self, command: bytes) -> asyncio.Future[Any]:
        if not self._unsent and self._write is not None:
            self._loop.call_soon(self._flush)
        self._unsent.append(command)
        answer = self._loop.create_future()
        self._answers.append(answer)
        return answer

    def _flush(self) -> None:
        assert self._write is not None
        self._write(b"".join(self._unsent))
        self._unsent.clear()


def awaited(url: str, scripts: Scripts) -> Opened:
    """One connection for all callers of the loop, and another for each one that has to wait."""
    shas = loaded(url, scripts)
    loop = asyncio.get_running_loop()
    connecting: set[asyncio.Task[Any]] = set()

    def connected() -> BareStream:
        stream = BareStream()
        made = loop.create_connection(lambda: stream, *_address(url))
        connecting.add(loop.create_task(made))
        return stream

    shared = connected()

    def opened(name: str) -> Pair:
        words = _commands(name, shas)
        private: list[BareStream] = []

        async def acquire() -> None:
            if not await shared.ask(words.acquire):
                if not private:
                    private.append(connected())
                await private[0].ask(words.wait)

        async def release() -> None:
            await shared.ask(words.release)

        return Pair(acquire, release)

    return opened
