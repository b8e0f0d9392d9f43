"""What an operator sees of the nodes, one by one, and how a new set is begun."""

from __future__ import annotations

import time
from typing import Any

from hiredis import ReplyError

from locknut.backends.redis import wire
from locknut.backends.redis.places import Place
from locknut.backends.redis.settings import Settings
from locknut.backends.redis.sockets import Connection
from locknut.backends.redlock.groups import located, name_of
from locknut.backends.redlock.lines import Line
from locknut.backends.redlock.questions import in_full, run_of
from locknut.backends.redlock.recipe import GUARD, MARKER, Recipe
from locknut.core.values import NodeInfo
from locknut.errors import BackendError


def look(place: Place, max_ttl: float) -> NodeInfo:
    """One node, as it is now; one that cannot be reached is told as such."""
    info = NodeInfo(name_of(place))
    try:
        told = _ask(located(place), [
            wire.pack(b"TIME"), wire.pack(b"INFO", b"server"), wire.pack(b"HGETALL", MARKER),
        ])  # fmt: skip
    except (OSError, BackendError) as error:
        return info._replace(problem=str(error))
    clock = int(told[0][0]) + int(told[0][1]) / 1e6
    marker = dict(zip(told[2][::2], told[2][1::2], strict=True))
    info = info._replace(reached=True, clock_ahead=clock - time.time())
    if not marker:
        return info._replace(problem="new, or it lost its data: it has not been asked yet")
    known = int(marker[b"max_ttl"]) / 1000 - GUARD
    votes_in = max(0.0, int(marker[b"ready"]) / 1000 - clock)
    info = info._replace(max_ttl=known, votes_in=votes_in)
    if marker[b"run"] != run_of(told[1]):
        return info._replace(problem="restarted, and not asked since", votes_in=None)
    if known != max_ttl:
        return info._replace(problem=f"its clients use max_ttl={known:g}, this URL {max_ttl:g}")
    if votes_in > 0:
        return info._replace(problem="it lost its data, or is new: it does not vote yet")
    return info


def begin(place: Place, recipe: Recipe) -> None:
    """This node votes from now on: to be said of nodes that nobody has used, or not for max_ttl."""
    script, packed = recipe.begin()(Line(0, b""))
    _ask(located(place), [in_full(script, packed)])


def _ask(settings: Settings, packed: list[bytes]) -> list[Any]:
    connection = Connection(settings)
    try:
        replies = connection.send_many(packed)
    finally:
        connection.close()
    for reply in replies:
        if isinstance(reply, ReplyError):
            raise wire.failed(reply)
    return replies
