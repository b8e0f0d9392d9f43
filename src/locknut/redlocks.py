"""Redlock: a Locks over several independent masters, and its nodes as an operator sees them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from locknut import opening, urls
from locknut.core import validation
from locknut.core.ports import Engine
from locknut.core.values import NodeInfo
from locknut.errors import ConfigurationError
from locknut.pickling import Origin

__all__ = ["begin", "engine", "nodes"]


def engine(
    urls: Iterable[str],
    max_ttl: validation.Duration,
    node_timeout: validation.Duration,
    *,
    durable: bool,
    failover: bool,
    set_name: str = "",
) -> tuple[Engine, Origin]:
    """What `locknut.redlock` connects to, and how another process does."""
    options = {
        "max_ttl": f"{validation.seconds(max_ttl, 'max_ttl')}",
        "node_timeout": f"{validation.seconds(node_timeout, 'node_timeout')}",
        "durable": str(durable),
        "failover": str(failover),
        "set_name": set_name,
    }
    origin = Origin(list(urls), options)
    return origin.engine(), origin


def nodes(url: str | None = None) -> list[NodeInfo]:
    """Each node of a `redlock:` URL: whether it votes, from when on, and what is wrong with it."""
    found: list[NodeInfo] = _redlock(url).look()
    return found


def begin(url: str | None = None, *, node: str | None = None, force: bool = False) -> None:
    """Let the nodes of a new set vote from now on: you say that nobody holds a lock there.

    Also for a set whose nodes were all stopped. A node that lost its data while somebody holds a
    lock must wait instead, and does so by itself: so a set of which some nodes vote is refused,
    unless `node` names the one that nobody can count on ("host:port", as `nodes` tells it). One
    whose clients have another `max_ttl`, or another list of nodes, is refused as well: with `force`
    it is given these, and those clients are refused from then on.
    """
    _redlock(url).begin(node, force=force)


def _redlock(url: str | None) -> Any:  # the engine, with more than the port
    if not urls.parse(urls.chosen(url)).scheme.startswith("redlock"):
        raise ConfigurationError("this is about the nodes of a Redlock: give a redlock: URL")
    opened, _ = opening.open_url(url, opening.Settings())
    return opened
