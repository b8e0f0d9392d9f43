"""Where a server is to be found, by what Sentinels say: asked again for every new connection.

An address that a Sentinel tells is not believed before the server there says itself that it is the
master: a Sentinel may be cut off, and tell of a master that has become a replica long ago.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from hiredis import HiredisError, ReplyError

from locknut.core import validation
from locknut.drivers.redis import settings as reading
from locknut.drivers.redis import wire
from locknut.drivers.redis.endpoints import BRIEFLY, Dial, EvictionCheck, Latest, P
from locknut.drivers.redis.settings import Settings
from locknut.errors import BackendError, BackendUnavailable, ConfigurationError
from locknut.runtimes.deadlines import hurried

if TYPE_CHECKING:
    from locknut.urls import Url

OPTIONS: Final = ("sentinel_username", "sentinel_password", "sentinel_tls")
_PORT: Final = 26379
_FRESH: Final = 0.1
"""Seconds for which it is believed that the master is still the same."""
_LATER: Final = 2.0
"""Seconds before they are asked so again when none of them answered."""
_SAME: Final = {True: ("socket_", "ssl_"), False: ("socket_",)}
"""Which options of the master are the Sentinels' too, if these are spoken to by TLS or not."""


class UnknownService(BackendError):
    """A Sentinel does not watch what the URL names."""


class Sentinels:
    """The master of one service, whoever that is now."""

    watched = True

    def __init__(self, service: str, settings: Settings, sentinels: list[Settings]):
        self.service = service
        self.settings = settings
        self._sentinels = sentinels
        self._question = wire.pack(b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME", service.encode())
        self._eviction_check = EvictionCheck()
        self.latest = Latest()
        self._master = ""
        """Where it was when it was reached last."""
        self._confirm_at = float("-inf")

    async def reach(self, dial: Dial[P]) -> P:
        tried: list[Settings] = []
        failures: dict[str, BackendError] = {}
        turns = [(sentinel, BRIEFLY) for sentinel in self._sentinels]
        for sentinel, most in turns:
            try:
                found = await self._ask(dial, sentinel, most)
                if found in tried:
                    continue  # another Sentinel of the same opinion
                tried.append(found)
                peer = await self._open(dial, found)
                if peer.welcome.role == "master":
                    self._prefer(sentinel)
                    self._master = found.place
                    return peer
                peer.close()
                raise BackendUnavailable(f"{found.place} says that it is a replica")
            except BackendError as error:
                failures[sentinel.place] = error
                if most == BRIEFLY and wire.timed_out(error):
                    turns.append((sentinel, math.inf))
        raise self._nowhere(list(failures.values()))

    @property
    def sentinels(self) -> tuple[Settings, ...]:
        """How each of them is spoken to, the one that answered last first."""
        return tuple(self._sentinels)

    def anew(self) -> Sentinels:
        return Sentinels(self.service, self.settings, list(self._sentinels))

    async def _open(self, dial: Dial[P], found: Settings) -> P:
        try:
            return await self._eviction_check.open(dial, found)
        except BackendError:
            raise
        except (OSError, HiredisError) as error:
            raise wire.unreachable(found, error) from error

    def _nowhere(self, failures: list[BackendError]) -> BackendError:
        """One that refuses us, or knows nothing, may be alone with that: so all are asked first."""
        if all(isinstance(each, UnknownService) for each in failures):
            return failures[0]
        for each in failures:
            if not isinstance(each, BackendUnavailable | UnknownService):
                return each
        reasons = "; ".join(each.message for each in failures)
        message = f"no master of {self.service!r} was found: {reasons}"
        return BackendUnavailable(message, backend="redis")

    async def confirm(self, dial: Dial[Any]) -> None:
        """Ask whether the master is still the same, unless somebody did so just now.

        Where no Sentinel answers soon, what is known has to do: they may all be away.
        """
        now = dial.clock.now
        if now() < self._confirm_at:
            return
        self._confirm_at = now() + _FRESH
        for sentinel in list(self._sentinels):
            try:
                found = await self._ask(dial, sentinel, BRIEFLY)
            except BackendError:
                continue
            self._prefer(sentinel)
            if found.place != self._master:
                self.latest.overtake()
            return
        if not hurried():  # or else they may not have been given the time
            self._confirm_at = now() + _LATER

    async def _ask(self, dial: Dial[P], sentinel: Settings, most: float) -> Settings:
        try:
            peer = await dial.open(sentinel.in_turn(most))
            try:
                reply = await dial.ask(peer, self._question)
            finally:
                peer.close()
        except BackendError:
            raise
        except (OSError, HiredisError) as error:
            raise wire.unreachable(sentinel, error) from error
        return self._found(sentinel, reply)

    def _found(self, sentinel: Settings, reply: Any) -> Settings:
        if isinstance(reply, ReplyError):
            raise wire.failed(reply)
        if reply is None:
            message = f"the Sentinel {sentinel.place} knows no service {self.service!r}"
            raise UnknownService(message, backend="redis")
        return self.settings.at(reply[0].decode(), int(reply[1]))

    def _prefer(self, sentinel: Settings) -> None:
        """The one that answered, and was right, is asked first next time."""
        if self._sentinels[0] is not sentinel:
            self._sentinels = [
                sentinel,
                *(each for each in self._sentinels if each is not sentinel),
            ]


def read(url: Url) -> Sentinels:
    """`redis+sentinel://user:password@h1,h2:26379/service/db`: who we are is for the master."""
    service, _, database = url.path.strip("/").partition("/")
    if not service:
        message = f"a {url.scheme}: URL needs the name of the service: {url.scheme}://host/mymaster"
        raise ConfigurationError(message, backend="redis")
    make, base = type(url), url.scheme.partition("+")[0]
    login, hosts = url.servers()
    validation.check_options("redis", url.options, (*OPTIONS, *reading.OPTIONS))
    rest = {name: value for name, value in url.options.items() if name not in OPTIONS}
    master = reading.read(make(base, f"{login}@" if login else "", f"/{database}", rest))
    encrypted = reading.switch(url.options, "sentinel_tls", default=True)
    kept = {name: value for name, value in rest.items() if name.startswith(_SAME[encrypted])}
    user, password = (url.options.get(name, "") for name in OPTIONS[:2])
    sentinels = reading.read_hosts(
        make(base if encrypted else "redis", ",".join(hosts), "", kept), _PORT
    )
    return Sentinels(
        service, master, [replace(each, username=user, password=password) for each in sentinels]
    )
