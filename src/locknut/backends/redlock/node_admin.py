"""What an operator sees of each node, and how a new set is begun (`locknut redlock`)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from hiredis import ReplyError

from locknut.backends.redlock.background_dial import located
from locknut.backends.redlock.ballots import OTHER_MAX_TTL, OTHER_SET
from locknut.backends.redlock.node_info import NodeInfo
from locknut.backends.redlock.nodes import name_of
from locknut.backends.redlock.quarantine import machine
from locknut.backends.redlock.questions import Route, in_full, run_of
from locknut.backends.redlock.recipe import GUARD, MARKER, Recipe
from locknut.drivers.redis import wire
from locknut.drivers.redis.connections import Connection
from locknut.drivers.redis.endpoints import Endpoint
from locknut.drivers.redis.settings import Settings
from locknut.errors import BackendError, BackendUnavailable, ConfigurationError


def look(place: Endpoint, recipe: Recipe) -> NodeInfo:
    """The state of one node now; `problem` says so if it cannot be reached."""
    info = NodeInfo(name_of(place))
    try:
        said = _ask(located(place), [
            wire.pack(b"TIME"), wire.pack(b"INFO", b"server"), wire.pack(b"HGETALL", MARKER),
        ])  # fmt: skip
    except (OSError, BackendError) as error:
        return info._replace(problem=str(error))
    clock = int(said[0][0]) + int(said[0][1]) / 1e6
    marker = dict(zip(said[2][::2], said[2][1::2], strict=True))
    info = info._replace(reached=True, clock_ahead=clock - time.time())
    if b"max_ttl" not in marker:
        return info._replace(problem="new, or it lost its data: it has not been asked yet")
    known = int(marker[b"max_ttl"]) / 1000 - GUARD
    info = info._replace(max_ttl=known, problem=_problem(marker, known, run_of(said[1]), recipe))
    if info.problem:
        return info
    if b"votes" in marker:
        return info._replace(votes_in=0.0)
    left = _left(marker, clock, known + GUARD)
    return info._replace(votes_in=left, problem="it is new, or lost its data: it does not vote yet")


def _problem(marker: dict[bytes, bytes], max_ttl: float, run: bytes, recipe: Recipe) -> str:
    """Why its marker does not fit this URL, or the server that runs now."""
    if max_ttl != recipe.max_ttl:
        return f"its clients use max_ttl={max_ttl:g}, this URL {recipe.max_ttl:g}"
    if marker.get(b"set", recipe.set_id) != recipe.set_id:
        return "its clients have another list of nodes, or another set_name"
    if marker.get(b"run") != run:
        return "it restarted, or its clock was set, and it was not asked since"
    return ""


def _left(marker: dict[bytes, bytes], clock: float, max_ttl: float) -> float:
    """Seconds until it votes, if this machine goes on asking it."""
    name, shows = machine()
    passed = [clock - int(marker[b"began"]) / 1000]
    first = marker.get(b"@" + name)
    if first is not None:
        passed.append(shows - int(first) / 1000)
    return max(0.001, max_ttl * 1.02 - min(passed))


def begin(places: Sequence[Endpoint], recipe: Recipe, node: str | None, *, force: bool) -> None:
    """Let these nodes vote from now on: right for nodes that nobody has used for max_ttl.

    Every node is tried, even if one fails; the error at the end names those that failed.
    """
    chosen = _chosen(places, recipe, node, force=force)
    done, failed = [], []
    for place in chosen:
        problem = _begin(place, recipe, force=force)
        if problem:
            failed.append(f"{name_of(place)}: {problem}")
        else:
            done.append(name_of(place))
    if failed:
        voting = f"; these nodes vote: {', '.join(done)}" if done else ""
        raise BackendUnavailable(f"not begun: {'; '.join(failed)}{voting}", backend="redlock")


def _chosen(
    places: Sequence[Endpoint], recipe: Recipe, node: str | None, *, force: bool
) -> list[Endpoint]:
    if node is not None:
        found = [place for place in places if name_of(place) == node]
        if not found:
            known = ", ".join(map(name_of, places))
            raise _wrong(f"{node} is not among the nodes of this URL: {known}")
        return found
    infos = [look(place, recipe) for place in places]
    voting = [each.place for each in infos if each.votes_in == 0]
    waiting = [each.place for each in infos if each.reached and each.votes_in != 0]
    if voting and waiting and not force:
        message = (
            f"this is not a new set: {', '.join(voting)} votes, {', '.join(waiting)} does not; a "
            "node that may have voted for somebody must wait for max_ttl, then it votes by itself; "
            "if nobody can be counting on its vote, name that node alone (`--node`)"
        )
        raise _wrong(message)
    return list(places)


def _begin(place: Endpoint, recipe: Recipe, *, force: bool) -> str:
    """What went wrong; empty if nothing did."""
    script, packed = recipe.begin(force=force)(Route(0, b""))
    try:
        ((what, number, _),) = _ask(located(place), [in_full(script, packed)])
    except (OSError, BackendError) as error:
        return str(error)
    if what == OTHER_MAX_TTL:
        its = number / 1000 - GUARD
        return f"its clients use max_ttl={its:g}, this URL {recipe.max_ttl:g} (force changes it)"
    if what == OTHER_SET:
        return "its clients have another list of nodes, or set_name (force changes it)"
    return ""


def _wrong(message: str) -> ConfigurationError:
    return ConfigurationError(message, backend="redlock")


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
