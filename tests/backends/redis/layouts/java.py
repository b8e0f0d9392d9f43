"""A small client that does to the server what Redisson 4.7 was recorded to do: its scripts in
meaning, its names, its messages, its waiting. Its own words, so that a mistake of ours is not in
both.
"""

from __future__ import annotations

import secrets
import threading
import time
import uuid
from typing import Any

from tests.servers.redis import RedisServer

WATCHDOG = 30_000
ALLOWANCE = 300_000
PATIENCE = 20.0

LOCK = """
if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
  redis.call('hincrby', KEYS[1], ARGV[2], 1)
  redis.call('pexpire', KEYS[1], ARGV[1])
  return nil
end
return redis.call('pttl', KEYS[1])
"""
FENCED = """
if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
  local number = redis.call('incr', KEYS[2])
  redis.call('hincrby', KEYS[1], ARGV[2], 1)
  redis.call('pexpire', KEYS[1], ARGV[1])
  return {-1, number}
end
return {redis.call('pttl', KEYS[1]), -1}
"""
UNLOCK = """
local known = redis.call('get', KEYS[3])
if known then return tonumber(known) end
if redis.call('hexists', KEYS[1], ARGV[3]) == 0 then return nil end
if redis.call('hincrby', KEYS[1], ARGV[3], -1) > 0 then
  redis.call('pexpire', KEYS[1], ARGV[2])
  redis.call('set', KEYS[3], 0, 'px', ARGV[5])
  return 0
end
redis.call('del', KEYS[1])
redis.call(ARGV[4], KEYS[2], ARGV[1])
redis.call('set', KEYS[3], 1, 'px', ARGV[5])
return 1
"""
RENEW = """
local told = {}
for i, name in ipairs(KEYS) do
  told[i] = redis.call('hexists', name, ARGV[i + 1])
  if told[i] == 1 then redis.call('pexpire', name, ARGV[1]) end
end
return told
"""
FORCE_UNLOCK = """
if redis.call('del', KEYS[1]) == 0 then return 0 end
redis.call(ARGV[2], KEYS[2], ARGV[1])
return 1
"""
_DROP_DEAD = """
local head = redis.call('lindex', KEYS[2], 0)
while head and tonumber(redis.call('zscore', KEYS[3], head)) <= tonumber(now) do
  redis.call('zrem', KEYS[3], head)
  redis.call('lpop', KEYS[2])
  head = redis.call('lindex', KEYS[2], 0)
end
"""
FAIR_LOCK = (
    "local now = ARGV[4]\n"
    + _DROP_DEAD
    + """
if redis.call('exists', KEYS[1]) == 0 and (not head or head == ARGV[2]) then
  redis.call('lpop', KEYS[2])
  redis.call('zrem', KEYS[3], ARGV[2])
  for _, each in ipairs(redis.call('zrange', KEYS[3], 0, -1)) do
    redis.call('zincrby', KEYS[3], -tonumber(ARGV[3]), each)
  end
  redis.call('hset', KEYS[1], ARGV[2], 1)
  redis.call('pexpire', KEYS[1], ARGV[1])
  return nil
end
if redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
  redis.call('hincrby', KEYS[1], ARGV[2], 1)
  redis.call('pexpire', KEYS[1], ARGV[1])
  return nil
end
if redis.call('zscore', KEYS[3], ARGV[2]) then
  return math.max(0, redis.call('pttl', KEYS[1]))
end
local last = redis.call('lindex', KEYS[2], -1)
local left
if last then
  left = tonumber(redis.call('zscore', KEYS[3], last)) - tonumber(now)
else
  left = redis.call('pttl', KEYS[1])
end
redis.call('zadd', KEYS[3], string.format('%.0f', left + ARGV[3] + now), ARGV[2])
redis.call('rpush', KEYS[2], ARGV[2])
return left
"""
)
FAIR_UNLOCK = (
    "local now = ARGV[4]\n"
    + _DROP_DEAD
    + """
local known = redis.call('get', KEYS[5])
if known then return tonumber(known) end
local function tell()
  if head then redis.call(ARGV[5], KEYS[4] .. ':' .. head, ARGV[1]) end
end
if redis.call('exists', KEYS[1]) == 0 then
  tell()
  return 1
end
if redis.call('hexists', KEYS[1], ARGV[3]) == 0 then return nil end
if redis.call('hincrby', KEYS[1], ARGV[3], -1) > 0 then
  redis.call('pexpire', KEYS[1], ARGV[2])
  return 0
end
redis.call('del', KEYS[1])
tell()
redis.call('set', KEYS[5], 1, 'px', ARGV[6])
return 1
"""
)


def beside(prefix: str, name: str) -> str:
    return f"{prefix}:{name}" if "{" in name else f"{prefix}:{{{name}}}"


class NotLockedByCurrentThread(Exception):
    """Java's IllegalMonitorStateException."""


class JavaLock:
    """One RLock, RFencedLock or fair lock of one thread of one client."""

    def __init__(self, server: RedisServer, name: str, client: str, thread: int) -> None:
        self._server = server
        self._wire = server.connect()
        self.name = name
        self.owner = f"{client}:{thread}"
        self.channel = beside("redisson_lock__channel", name)
        self.number = beside("redisson_lock_token", name)
        self._fair = [name] + [
            beside(f"redisson_lock_{part}", name) for part in ("queue", "timeout")
        ]

    def _eval(self, script: str, keys: list[str], *arguments: object) -> Any:
        return self._wire.ask("EVAL", script, len(keys), *keys, *map(str, arguments))

    def try_lock(self, lease: int = WATCHDOG) -> int | None:
        """None: got it. Otherwise the ms that the other one may still hold it."""
        left: int | None = self._eval(LOCK, [self.name], lease, self.owner)
        return left

    def try_lock_and_get_number(self, lease: int = WATCHDOG) -> int | None:
        _, number = self._eval(FENCED, [self.name, self.number], lease, self.owner)
        return None if number == -1 else int(number)

    def unlock(self) -> bool:
        latch = f"{beside('redisson_unlock_latch', self.name)}:{secrets.token_hex(16)}"
        keys = [self.name, self.channel, latch]
        freed = self._eval(UNLOCK, keys, 0, WATCHDOG, self.owner, "PUBLISH", 16_000)
        self._wire.ask("DEL", latch)
        if freed is None:
            raise NotLockedByCurrentThread(self.owner)
        return bool(freed == 1)

    def renew(self) -> bool:
        return bool(self._eval(RENEW, [self.name], WATCHDOG, self.owner) == [1])

    def force_unlock(self) -> bool:
        return bool(self._eval(FORCE_UNLOCK, [self.name, self.channel], 0, "PUBLISH") == 1)

    def try_fair_lock(self, lease: int = WATCHDOG) -> int | None:
        now = int(time.time() * 1000)
        left: int | None = self._eval(FAIR_LOCK, self._fair, lease, self.owner, ALLOWANCE, now)
        return left

    def fair_unlock(self) -> bool:
        latch = f"{beside('redisson_unlock_latch', self.name)}:{secrets.token_hex(16)}"
        keys, now = [*self._fair, self.channel, latch], int(time.time() * 1000)
        freed = self._eval(FAIR_UNLOCK, keys, 0, WATCHDOG, self.owner, now, "PUBLISH", 16_000)
        self._wire.ask("DEL", latch)
        if freed is None:
            raise NotLockedByCurrentThread(self.owner)
        return bool(freed == 1)

    def hold_count(self) -> int:
        return int(
            self._eval("return redis.call('hget', KEYS[1], ARGV[1]) or 0", [self.name], self.owner)
        )

    def close(self) -> None:
        self._wire.close()


class JavaWaiter:
    """A thread in `lock()`: tries, subscribes, tries again, then sleeps until a message or until
    the TTL that it was told; nothing else wakes it.
    """

    def __init__(self, server: RedisServer, lock: JavaLock, *, fair: bool = False) -> None:
        self._lock = lock
        self._try = lock.try_fair_lock if fair else lock.try_lock
        self._channel = f"{lock.channel}:{lock.owner}" if fair else lock.channel
        self._wire = server.connect()
        self._heard = threading.Semaphore(0)
        self.messages: list[bytes] = []
        self.sleeping = threading.Event()
        self.entered = threading.Event()
        self.woken_by_message = False
        self._thread = threading.Thread(target=self._wait, daemon=True)
        self._ears = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        try:
            while True:
                said: Any = self._wire.read()
                self.messages.append(said[2])
                int(said[2])  # anything else is a decoding error in Java
                self._heard.release()
        except (OSError, ValueError):
            pass  # closed

    def _wait(self) -> None:
        if self._try() is not None:
            self._wire.ask("SUBSCRIBE", self._channel)
            self._ears.start()
            while (left := self._try()) is not None:
                self.sleeping.set()
                self.woken_by_message = self._heard.acquire(
                    timeout=left / 1000 if left >= 0 else PATIENCE
                )
        self.entered.set()

    def wait_entered(self) -> None:
        assert self.entered.wait(PATIENCE), "the Java waiter never got the lock"
        self._thread.join(PATIENCE)

    def close(self) -> None:
        self._wire.close()


class Java:
    """One Redisson instance, with as many locks, threads and waiters as a test wants."""

    def __init__(self, server: RedisServer) -> None:
        self._server = server
        self.id = str(uuid.uuid4())
        self._open: list[JavaLock | JavaWaiter] = []

    def lock(self, name: str, thread: int = 47) -> JavaLock:
        lock = JavaLock(self._server, name, self.id, thread)
        self._open.append(lock)
        return lock

    def waiter(self, lock: JavaLock, *, fair: bool = False) -> JavaWaiter:
        waiter = JavaWaiter(self._server, lock, fair=fair)
        self._open.append(waiter)
        return waiter

    def close(self) -> None:
        for each in self._open:
            each.close()
