"""Locks in a pickle: what goes into it, and which client they have in the process that reads it.

A Lock is a name, so its pickle leads any process to the same lock: it has the URL, the settings and
the name, and nothing of what is held. The password of the URL is in the pickle, because it is
needed there; nothing else shows it. What was made with one Locks has one client again where it is
read, and in the process that it comes from (or a forked child) it has the client that it had.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Self
from weakref import WeakValueDictionary

from locknut.core import forking
from locknut.errors import ConfigurationError
from locknut.urls import open_engine

if TYPE_CHECKING:
    from locknut.core.client import Client
    from locknut.core.lock_request import LockOptions
    from locknut.core.ports import Engine
    from locknut.opening import Opened, Settings
    from locknut.urls import Address

_known: WeakValueDictionary[int, Client] = WeakValueDictionary()
"""Every client that a pickle may be about."""
_restoring = threading.RLock()
"""Threads that read pickles of one Locks at the same time get one client."""


class Origin:
    """The way to an engine and the identity of a Locks. No repr: a URL may have a password."""

    __slots__ = ("address", "identity")

    def __init__(self, address: str | Address, identity: str = ""):
        self.address = address
        self.identity = identity or os.urandom(16).hex()

    def engine(self) -> Engine:
        return open_engine(self.address)[0]

    def __reduce__(self) -> tuple[object, ...]:
        return Origin, (self.address, self.identity)


class Named:
    """The base of what is a name with settings: a copy of it is the same object."""

    __slots__ = ()

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, known: dict[int, Any]) -> Self:
        return self


def know(client: Client) -> None:
    """From now on pickles of its Locks lead to it, in this process."""
    _known[id(client)] = client


def carried(face: type[Opened], settings: Settings, client: Client) -> tuple[object, ...]:
    """What a pickle has in place of the client."""
    if client.closed and client.closed is not forking.FORKED:
        raise ConfigurationError(client.closed, backend=client.backend.name)
    if settings.origin is None:
        refuse(
            "it was not made from a URL, which would lead another process to its engine; "
            "connect by URL, or connect where it is used"
        )
    if settings.way is not None and settings.way.place.startswith("memory:"):
        refuse("the locks of memory: exclude nobody outside of this process; use file: or a server")
    return restored, (face, settings)


def refuse(why: str) -> NoReturn:
    raise TypeError(f"this Locks cannot be pickled, nor can its locks: {why}")


def restored(face: Any, settings: Settings) -> Client:  # a Locks of either face
    """The client of this Locks in this process; a new one, where there is none yet."""
    origin = settings.origin
    if origin is None:
        refuse("it has no URL")
    with _restoring:
        for found in _known.valuerefs():
            client = found()
            if client is not None and client.identity == origin.identity:
                client = forking.here(client)
                if not client.closed and not client.runtime.elsewhere:
                    return client
        made: Client = face(origin.engine(), settings)._client
        return made


def around(face: type[Opened], client: Client) -> Opened:
    """The Locks that has this client."""
    return face._around(client)


def together(
    kind: Any, parts: Sequence[tuple[Client, str, LockOptions]], timeout: object
) -> Any:  # a LockGroup of either face
    """Several locks as one, from the names in a pickle."""
    return kind(
        [(client, client.request(name, options)) for client, name, options in parts], timeout
    )


def _after_fork() -> None:
    global _restoring  # noqa: PLW0603  # the parent's may be held by a thread that is not here
    _restoring = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
