"""The commands that the scripts and connections use, as a Redis server answers them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tests.simulation.redis.keys import Hash, Keys, List, Refused, ZSet

NOT_INTEGER = "ERR value is not an integer or out of range"
SYNTAX = "ERR syntax error"
BIGGEST = 2**63 - 1


class Status(NamedTuple):
    """An answer that is a word of the server, such as OK."""

    text: str


OK = Status("OK")
Command = Callable[..., Any]  # of words, to an answer
COMMANDS: dict[str, Command] = {}
"""By name; each takes the keys of the database and its words."""


def run(keys: Keys, words: list[bytes]) -> Any:
    """One command's answer; raises Refused with what a server would say."""
    name = words[0].decode("latin-1").lower()
    known = COMMANDS.get(name)
    if known is None:
        raise Refused(f"ERR unknown command '{name}'")
    try:
        return known(keys, *words[1:])
    except TypeError as error:
        if "positional argument" not in str(error):
            raise
        raise Refused(f"ERR wrong number of arguments for '{name}' command") from None


def command(make: Command) -> Command:
    COMMANDS[make.__name__.rstrip("_")] = make
    return make


def integer(word: bytes) -> int:
    text = word.decode("latin-1")
    digits = text.removeprefix("-")
    canonical = digits.isdecimal() and digits.isascii() and (digits == "0" or digits[0] != "0")
    if not canonical or text == "-0" or abs(int(text)) > BIGGEST:
        raise Refused(NOT_INTEGER)
    return int(text)


def number(word: bytes) -> float:
    try:
        found = float(word)
    except ValueError:
        raise Refused("ERR value is not a valid float") from None
    if found != found or b"_" in word:  # noqa: PLR0124  # not a number
        raise Refused("ERR value is not a valid float")
    return found


def shown(score: float) -> bytes:
    """As the server writes a score."""
    return b"%d" % int(score) if score == int(score) else repr(score).encode()


# Any key.


@command
def exists(keys: Keys, *names: bytes) -> int:
    if not names:
        raise Refused("ERR wrong number of arguments for 'exists' command")
    return sum(keys.has(name) for name in names)


@command
def del_(keys: Keys, *names: bytes) -> int:
    there = exists(keys, *names)
    for name in names:
        keys.drop(name)
    return int(there)


@command
def type_(keys: Keys, name: bytes) -> Status:
    return Status(keys.kind(name))


@command
def pttl(keys: Keys, name: bytes) -> int:
    if not keys.has(name):
        return -2
    end = keys.end(name)
    return -1 if end is None else end - keys.now


@command
def pexpire(keys: Keys, name: bytes, left: bytes) -> int:
    return int(pexpireat(keys, name, b"%d" % (keys.now + integer(left))))


@command
def pexpireat(keys: Keys, name: bytes, end: bytes) -> int:
    moment = integer(end)
    if not keys.has(name):
        return 0
    keys.end_at(name, moment)
    return 1


@command
def time(keys: Keys) -> list[bytes]:
    now = keys.clock()
    return [b"%d" % (now // 1_000_000), b"%d" % (now % 1_000_000)]


@command
def flushall(keys: Keys) -> Status:
    keys.clear()
    return OK


# Strings.


@command
def get(keys: Keys, name: bytes) -> bytes | None:
    return keys.find(name, bytes)


@command
def set_(keys: Keys, name: bytes, value: bytes, *options: bytes) -> Status | None:
    words = [option.upper() for option in options]
    end = None
    for option, since in ((b"PX", keys.now), (b"PXAT", 0)):
        if option in words:
            at = words.index(option)
            if at + 1 >= len(words) or end is not None:
                raise Refused(SYNTAX)
            left = integer(words[at + 1])
            if left <= 0:
                raise Refused("ERR invalid expire time in 'set' command")
            end = since + left
            del words[at : at + 2]
    if not set(words) <= {b"NX", b"XX"} or len(words) > 1:
        raise Refused(SYNTAX)
    if words and keys.has(name) is (words == [b"NX"]):
        return None
    keys.put(name, value, end)
    return OK


@command
def getrange(keys: Keys, name: bytes, first: bytes, last: bytes) -> bytes:
    start, stop = integer(first), integer(last)
    value = keys.find(name, bytes) or b""
    if start < 0 and stop < 0 and start > stop:
        return b""
    first_byte, last_byte = (
        max(0, at + len(value)) if at < 0 else at for at in (start, stop)
    )  # unlike that of a list, the last is never before the first byte there is
    return value[first_byte : last_byte + 1]


@command
def incr(keys: Keys, name: bytes) -> int:
    value = keys.find(name, bytes)
    if value is None:
        keys.put(name, b"1")
        return 1
    found = integer(value)
    if found >= BIGGEST:
        raise Refused("ERR increment or decrement would overflow")
    keys.change(name, b"%d" % (found + 1))
    return found + 1


# Hashes.


@command
def hset(keys: Keys, name: bytes, *pairs: bytes) -> int:
    if not pairs or len(pairs) % 2:
        raise Refused("ERR wrong number of arguments for 'hset' command")
    found = keys.make(name, Hash)
    before = len(found)
    found.update(zip(pairs[::2], pairs[1::2], strict=True))
    return len(found) - before


@command
def hget(keys: Keys, name: bytes, field: bytes) -> bytes | None:
    return (keys.find(name, Hash) or Hash()).get(field)


@command
def hmget(keys: Keys, name: bytes, *fields: bytes) -> list[bytes | None]:
    if not fields:
        raise Refused("ERR wrong number of arguments for 'hmget' command")
    found = keys.find(name, Hash) or Hash()
    return [found.get(field) for field in fields]


@command
def hdel(keys: Keys, name: bytes, *fields: bytes) -> int:
    found = keys.find(name, Hash) or Hash()
    gone = sum(found.pop(field, None) is not None for field in fields)
    keys.tidy(name)
    return gone


@command
def hgetall(keys: Keys, name: bytes) -> list[bytes]:
    found = keys.find(name, Hash) or Hash()
    return [word for pair in found.items() for word in pair]


# Sorted sets.


@command
def zadd(keys: Keys, name: bytes, *words: bytes) -> int:
    how = {word.upper() for word in words[:1]} & {b"NX", b"XX"}
    pairs = words[len(how) :]
    if not pairs or len(pairs) % 2:
        raise Refused(SYNTAX)
    scores = [number(word) for word in pairs[::2]]
    if b"XX" in how and not keys.has(name):
        return 0
    found = keys.make(name, ZSet)
    before = len(found)
    for score, member in zip(scores, pairs[1::2], strict=True):
        if not how or (member in found) is (b"XX" in how):
            found[member] = score
    return len(found) - before


@command
def zrem(keys: Keys, name: bytes, *members: bytes) -> int:
    found = keys.find(name, ZSet) or ZSet()
    gone = sum(found.pop(member, None) is not None for member in members)
    keys.tidy(name)
    return gone


@command
def zcard(keys: Keys, name: bytes) -> int:
    return len(keys.find(name, ZSet) or ())


@command
def zscore(keys: Keys, name: bytes, member: bytes) -> bytes | None:
    score = (keys.find(name, ZSet) or ZSet()).get(member)
    return None if score is None else shown(score)


@command
def zrank(keys: Keys, name: bytes, member: bytes) -> int | None:
    ordered = [each for each, _ in (keys.find(name, ZSet) or ZSet()).ordered()]
    return ordered.index(member) if member in ordered else None


@command
def zrange(keys: Keys, name: bytes, first: bytes, last: bytes, *options: bytes) -> list[bytes]:
    start, stop = integer(first), integer(last)
    if [option.upper() for option in options] not in ([], [b"WITHSCORES"]):
        raise Refused(SYNTAX)
    ordered = (keys.find(name, ZSet) or ZSet()).ordered()
    chosen = [ordered[at] for at in _range(len(ordered), start, stop)]
    if options:
        return [word for member, score in chosen for word in (member, shown(score))]
    return [member for member, _ in chosen]


@command
def zrangebyscore(keys: Keys, name: bytes, least: bytes, most: bytes) -> list[bytes]:
    low, high = number(least), number(most)
    ordered = (keys.find(name, ZSet) or ZSet()).ordered()
    return [member for member, score in ordered if low <= score <= high]


# Lists.


@command
def rpush(keys: Keys, name: bytes, *values: bytes) -> int:
    if not values:
        raise Refused("ERR wrong number of arguments for 'rpush' command")
    found = keys.make(name, List)
    found.extend(values)
    return len(found)


@command
def lpop(keys: Keys, name: bytes) -> bytes | None:
    found = keys.find(name, List)
    if found is None:
        return None
    value = found.pop(0)
    keys.tidy(name)
    return value


@command
def lrange(keys: Keys, name: bytes, first: bytes, last: bytes) -> list[bytes]:
    start, stop = integer(first), integer(last)
    found = keys.find(name, List) or List()
    return [found[at] for at in _range(len(found), start, stop)]


def _range(size: int, first: int, last: int) -> range:
    """Both ends belong to it, and may count from the end."""
    start = max(0, first + size) if first < 0 else first
    stop = last + size if last < 0 else last
    return range(start, min(stop, size - 1) + 1)
