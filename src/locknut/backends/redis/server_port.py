"""What is asked, one server or all of a cluster, in one colour: the port, and what answers come to.

A `Server` sends, and no more. That a script has to be loaded first, that one wrong key does not
spoil its neighbours, and what it means that too few replicas know of something is the same for all
of them, and stands here once.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol

from hiredis import ReplyError

from locknut.core.findings import Check
from locknut.core.values import Claim
from locknut.drivers.redis import product, wire
from locknut.drivers.redis.confirmations import Confirmation, Unconfirmed
from locknut.drivers.redis.lua_scripts import Script
from locknut.errors import BackendError

SendMany = Callable[[Sequence[bytes]], Coroutine[Any, Any, list[Any]]]


class Server(Protocol):
    """Sends commands to where they belong. All of it may be used by several callers at once."""

    confirmation: Confirmation | None
    """How many replicas have to know of a grant, where that was asked for."""

    async def ask(self, script: Script, packed: bytes) -> Any:
        """One script's answer; what is no number goes through `understood`."""

    async def send_many(self, packed: Sequence[bytes]) -> list[object]:
        """Several commands in one round trip.

        An answer is a `ReplyError` where the server said no, and a `BackendError` where nobody said
        anything. They are plain objects, so that none is used before `checked` has looked at it.
        """

    async def send_confirmed(self, packed: Sequence[bytes]) -> list[object]:
        """The same; what too few replicas have confirmed is `Unconfirmed`."""

    def refused(self, reply: ReplyError) -> BackendError:
        """The error to raise. Perhaps it was the wrong server that was asked: then it is left."""

    def era_of(self, packed: bytes) -> object:
        """To which server this would be sent now, where it has several connections: `Pool.era`."""

    def in_reach(self, claims: Sequence[Claim]) -> bool:
        """Whether one script can see to all of them."""

    def scatter(self, claims: Sequence[Claim]) -> Sequence[object]:
        """For each of them something that names its server, as far as is known without asking."""

    async def masters(self) -> list[SendMany]:
        """The servers that have keys: this one, or all the masters of a cluster."""

    def hung_up(self) -> bool:
        """Whether a connection that nobody uses was cut."""

    def checks(self, prefix: str | None) -> Sequence[Check]:
        """As `Backend.checks`; the prefix is None where our own layout is not used. A server on a
        loop has none: a blocking one is asked in its place.
        """

    async def close(self) -> None: ...

    def dropped(self) -> None:
        """Nobody has the backend any more, and it was not closed."""

    def forked(self) -> None:
        """In a forked child: forget the parent's connections, without a word to the server."""


async def product_of(server: Server) -> str:
    """Which product it is, and which version: of a cluster, that of one master."""
    first, *_ = await server.masters()
    return product.named(await first(product.QUESTIONS))


async def understood(server: Server, script: Script, packed: bytes, reply: object) -> Any:
    """An answer that may be an error, or tell that the script has to be loaded first."""
    if wire.unscripted(reply):  # nothing was done, so asking again is safe
        load = wire.pack(b"SCRIPT", b"LOAD", script.text)
        loaded, reply = await server.send_many([load, packed])
        reply = loaded if isinstance(loaded, ReplyError) else reply
    return checked(server, reply)


def checked(server: Server, reply: object) -> Any:
    """One of several answers, or the error that it is: refused, or not answered at all."""
    if isinstance(reply, ReplyError):
        raise server.refused(reply)
    if isinstance(reply, BackendError):
        raise reply
    return reply


async def ask_confirmed(server: Server, script: Script, packed: bytes, granted: type) -> Any:
    """As `Server.ask`; a grant that too few replicas have got is as good as unanswered.

    It is not given back here: the core asks again with the same claim, which finds its own grant
    and has it confirmed, or releases the claim for good. A claim that was released must never be
    asked for again: a late release would end the new hold (S7).
    """
    (reply,) = await ask_many(server, script, [packed], server.send_confirmed)
    if not isinstance(reply, Unconfirmed):
        return checked(server, reply)
    if not isinstance(reply.reply, granted) or not reply.reply:
        return reply.reply  # "not yet" is all the same to the replicas
    raise reply


async def ask_many(
    server: Server, script: Script, batch: Sequence[bytes], send: SendMany | None = None
) -> list[object]:
    """The answers, errors among them: one wrong key must not spoil its neighbours."""
    if not batch:
        return []
    send = send or server.send_many
    replies = await send(batch)
    if all(type(reply) is int for reply in replies):
        return replies
    again = [at for at, reply in enumerate(replies) if wire.unscripted(reply)]
    if again:
        load = wire.pack(b"SCRIPT", b"LOAD", script.text)
        loaded, *repeated = await send([load, *(batch[at] for at in again)])
        for at, reply in zip(again, repeated, strict=True):
            replies[at] = loaded if isinstance(loaded, ReplyError) else reply
    for reply in replies:
        if isinstance(reply, ReplyError):
            server.refused(reply)
    return replies
