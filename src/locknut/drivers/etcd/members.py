"""The members of a cluster as all links of an engine know them: whom to ask, and as whom.

Callers and the keeper have links of their own. A member that was silent to one of them is not asked
by the other either, and a login serves both.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, NamedTuple
from weakref import WeakMethod

from locknut.drivers.etcd import hpack
from locknut.drivers.etcd.settings import Settings, shown

Host = tuple[str, int]
_MOST_HEADS: Final = 64


class Turn(NamedTuple):
    """Which host is asked, until it is left. Its connections are left then as well: behind one
    address there may be several members.
    """

    number: int
    host: Host


class Members:
    """The hosts of a URL, whose turn it is to be asked, and the login."""

    def __init__(self, settings: Settings):
        self.hosts = settings.hosts
        self._mutex = threading.RLock()  # a finalizer may come in
        self.turn = Turn(0, self.hosts[0])
        self._answered: dict[int, Turn] = {}
        """When each member answered last."""
        self._on_change: list[WeakMethod[Callable[[], None]]] = []
        self._scheme = b"https" if settings.tls else b"http"
        self._heads: dict[tuple[str, bytes, Host], bytes] = {}
        self._has_login = bool(settings.username)
        self.ticket = None if self._has_login else b""
        """What the last login was answered by; None: log in first. Empty: nobody need do so."""

    def follow(self, changed: Callable[[], None]) -> None:
        """Have this bound method called, on any thread, when another turn begins."""
        with self._mutex:
            self._on_change = [each for each in self._on_change if each() is not None]
            self._on_change.append(WeakMethod(changed))

    def leave(self, turn: Turn) -> None:
        """It was silent, or said that it cannot answer: from now on the next one is asked. What
        others find out about the same turn is no news.
        """
        with self._mutex:
            if self.turn != turn:
                return
            number = turn.number + 1
            self.turn = Turn(number, self.hosts[number % len(self.hosts)])
        for each in list(self._on_change):
            changed = each()
            if changed is not None:
                changed()

    def answered(self, turn: Turn, member: int) -> None:
        """Note which member it is: `move_on` names members."""
        if self._answered.get(member) != turn:
            self._answered[member] = turn

    def move_on(self, member: int) -> None:
        turn = self._answered.get(member)
        if turn is not None:
            self.leave(turn)

    def forked(self) -> None:
        """The mutex may be held by a thread of the parent's."""
        self._mutex = threading.RLock()

    def logged_out(self, ticket: bytes) -> bool:
        """The cluster does not know it (any more); False if there is no other to be had."""
        if self._has_login and self.ticket == ticket:
            self.ticket = None
        return self._has_login

    def head(self, path: str, host: Host, ticket: bytes) -> bytes:
        """What a request to this host begins with."""
        found = self._heads.get((path, ticket, host))
        if found is None:
            if len(self._heads) >= _MOST_HEADS:  # of logins that have run out
                self._heads.clear()
            found = self._packed(path, host, ticket)
            self._heads[path, ticket, host] = found
        return found

    def _packed(self, path: str, host: Host, ticket: bytes) -> bytes:
        headers = [
            (b":method", b"POST"),
            (b":scheme", self._scheme),
            (b":path", path.encode()),
            (b":authority", shown(host).encode()),
            (b"te", b"trailers"),
            (b"content-type", b"application/grpc"),
            (b"user-agent", b"locknut"),
            (b"hasleader", b"true"),  # or a member that was cut off would not say so for long
        ]
        if ticket:
            headers.append((b"token", ticket))
        return hpack.packed(headers)
