"""The first words with a memcached: who we are, and whether it can do what a lock needs."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final, NamedTuple

from locknut.drivers.memcached.replies import Reply, failed
from locknut.drivers.memcached.settings import Settings
from locknut.errors import BackendUnavailable, ConfigurationError

VERSION: Final = b"version\r\n"
STATS: Final = b"stats\r\n"
LISTS: Final = (STATS, b"stats settings\r\n")
HEAD_START: Final = 2
"""Seconds by which a memcached says it is older than it is: it starts its clock in the past."""
OLDEST: Final = (1, 6, 6)
"""The first whose meta commands compare CAS ids and return them as we need it."""


class OtherInstance(Exception):
    """The connection leads to another instance of the server than these commands are for."""


_log = logging.getLogger("locknut")
_warned: set[str] = set()
"""Servers that were found evicting: one warning each is enough."""


class Greeted(NamedTuple):
    """What a server said of itself when we connected."""

    start: int
    """When it was started, in seconds since the epoch: the same for as long as it runs."""
    pid: int
    age_then: int
    """How old it was when it said so, in whole seconds, at least."""
    at: float
    """When that was, by our clock, at the latest."""
    clock: int
    """What its clock showed, in seconds since the epoch: items end by it."""
    asked: float
    """When we asked for that, by our clock."""
    longest: int = 1 << 20
    """Bytes of an item that it stores, with the key and what it adds (`-I`). Asked for a longer
    one, it refuses, and removes what stands under the key."""
    evicts: bool = True
    """Whether it removes other items to make room for one. If not (`-M`), and it is full, it
    refuses and removes as well."""

    @property
    def instance(self) -> tuple[int, int]:
        """Another one after a restart: then CAS ids begin anew, and old ones mean nothing."""
        return self.start, self.pid

    def age(self, now: float) -> float:
        """How old it is at least, at this moment of our clock."""
        return self.age_then + now - self.at


def login(settings: Settings) -> bytes:
    """The command that says who we are; empty where nobody asks."""
    if not settings.username:
        return b""
    secret = f"{settings.username} {settings.password}".encode()
    return b"set login 0 0 %d\r\n%s\r\n" % (len(secret), secret)


def check_login(settings: Settings, reply: Reply) -> None:
    if reply.code != b"STORED":
        raise failed(settings, reply)


def understand(
    settings: Settings, answers: Sequence[Sequence[Reply]], asked: float, now: float
) -> Greeted:
    """What the answers to the questions come to; raises if locks would not be safe there."""
    stats, options = answers
    for replies in answers:
        if replies[-1].refusal:
            raise failed(settings, replies[-1])
    known, set_so = listed(stats), listed(options)
    if set_so.get("cas_enabled", "yes") != "yes":
        message = (
            f"the memcached at {settings.place} runs without CAS ids (-C): no lock is safe there; "
            "start it without that option"
        )
        raise ConfigurationError(message, backend="memcached")
    _warn_of_evictions(settings, int(known.get("evictions", 0)))
    return instance_of(settings, known, asked, now)._replace(
        longest=int(set_so.get("item_size_max", 1 << 20)),
        evicts=set_so.get("evictions", "on") == "on",
    )


def instance_of(settings: Settings, known: dict[str, str], asked: float, now: float) -> Greeted:
    """Which instance it is, and what its clock shows."""
    try:
        clock, uptime, pid = (int(known[word]) for word in ("time", "uptime", "pid"))
    except (KeyError, ValueError) as error:
        message = f"the memcached at {settings.place} does not say when it was started"
        raise BackendUnavailable(message, backend="memcached") from error
    return Greeted(clock - uptime, pid, uptime - HEAD_START, now, clock, asked)


def check_version(settings: Settings, reply: Reply) -> None:
    """The first answer: one that wants a password gives no others."""
    if reply.refusal:
        raise failed(settings, reply)
    text = reply.words[0].decode(errors="replace") if reply.words else "?"
    parts = text.split("-")[0].split(".")
    if tuple(int(part) for part in parts if part.isdecimal()) < OLDEST:
        least = ".".join(map(str, OLDEST))
        message = (
            f"the memcached at {settings.place} is {text}: its commands cannot release a lock "
            f"safely; {least} or newer can"
        )
        raise ConfigurationError(message, backend="memcached")


def listed(replies: Sequence[Reply]) -> dict[str, str]:
    """The lines of an answer to `stats`, by their names."""
    lines = [reply.words for reply in replies if reply.code == b"STAT" and len(reply.words) > 1]
    return {words[0].decode(): words[1].decode(errors="replace") for words in lines}


def _warn_of_evictions(settings: Settings, evictions: int) -> None:
    if evictions and settings.place not in _warned:
        _warned.add(settings.place)
        _log.warning(
            "the memcached at %s is full: it has removed %d items to make room, and may remove a "
            "lock that is held; give it more memory, or a server of its own for locks",
            settings.place,
            evictions,
        )
