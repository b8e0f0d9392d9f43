"""Redlock from Python: nodes that have a URL each, and the nodes as an operator sees them.

>>> import locknut
>>> from locknut import redlock
>>> nodes = ["redis://:one@h1", "redis://:two@h2", "redis://:three@h3"]
>>> locks = locknut.connect(redlock.Redlock(nodes, max_ttl="2m"))     # locknut.aio.connect as well

Where all nodes have the same password and options, a URL says it: "redlock://h1,h2,h3". This is the
one door to that engine: nothing else in the package knows what its nodes are.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, cast

from locknut.backends.redlock import open_nodes
from locknut.backends.redlock.node_info import NodeInfo
from locknut.core import validation
from locknut.errors import ConfigurationError
from locknut.faces.misuse import answered
from locknut.urls import Address, chosen, open_engine, parse

if TYPE_CHECKING:
    from locknut.backends.redlock.engine import RedlockEngine

__all__ = ["NodeInfo", "Redlock", "begin", "nodes"]

_NAME = "redlock"


class Redlock(Address):
    """Several independent Redis masters, each with a URL of its own: what `connect` takes.

    `max_ttl`: the longest ttl that any client uses. `durable`: the nodes never lose data.
    `failover`: a node may be a group behind Sentinels; the page of `redlock:` says what that costs.
    `set_name`: clients that know the same nodes by different addresses give the same name here.
    """

    @answered
    def __init__(
        self,
        urls: Iterable[str],
        *,
        max_ttl: validation.Duration = 60.0,
        node_timeout: validation.Duration = 0.3,
        durable: bool = False,
        failover: bool = False,
        set_name: str = "",
    ):
        if isinstance(urls, str):
            raise ConfigurationError("a list of URLs is needed, one for each node", backend=_NAME)
        self._urls = tuple(urls)
        self._shown = [parse(each).text for each in self._urls]
        self._options = {
            "max_ttl": f"{validation.seconds(max_ttl, 'max_ttl')}",
            "node_timeout": f"{validation.seconds(node_timeout, 'node_timeout')}",
            "durable": str(durable),
            "failover": str(failover),
            "set_name": set_name,
        }

    def __repr__(self) -> str:
        return f"Redlock({self._shown})"

    def open_engine(self) -> RedlockEngine:
        return open_nodes([parse(each) for each in self._urls], dict(self._options))


def nodes(url: str | Redlock | None = None) -> list[NodeInfo]:
    """Return each node: whether it votes, from when on, and what is wrong with it."""
    return _engine(url).look()


def begin(
    url: str | Redlock | None = None, *, node: str | None = None, force: bool = False
) -> None:
    """Let the nodes of a new set vote from now on: you say that nobody holds a lock there.

    Also for a set whose nodes were all stopped. A node that lost its data while somebody holds a
    lock must wait instead, and does so by itself: so a set of which some nodes vote is refused,
    unless `node` names the one that nobody can count on ("host:port", as `nodes` tells it). One
    whose clients have another `max_ttl`, or another list of nodes, is refused as well: with `force`
    it is given these, and those clients are refused from then on.
    """
    _engine(url).begin(node, force=force)


def _engine(url: str | Redlock | None) -> RedlockEngine:
    if isinstance(url, Redlock):
        return url.open_engine()
    if not parse(chosen(url)).scheme.startswith(_NAME):
        raise ConfigurationError("this is about the nodes of a Redlock: give a redlock: URL")
    return cast("RedlockEngine", open_engine(url)[0])
