"""From the measured series of an engine to the costs that the calculator computes with.

What grows is taken from the largest size, where the fixed cost of a process weighs least; what is
fixed from the smallest ones, where it is all there is.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from locknut.capacity import Costs
from locknut.core import pacing
from locknut.core.timetable import BATCH

COSTS = Path(__file__).resolve().parent.parent / "src" / "locknut" / "capacity" / "costs.json"
HOUR, DAY = 3600.0, 86400.0
LEFT_FOR = {
    "file": DAY,
    "sqlite": DAY,
    "redis": HOUR,
    "redlock": DAY,
    "memcached": 300.0,
    "postgresql": DAY,
    "mysql": DAY,
    "zookeeper": 60.0,
}
"""For how long something of a name stays after its last use: by rule, told on the engine's page."""
ONE_CORE = frozenset({"redis", "redlock"})
"""Whose servers run one command at a time."""
MOST_CONNECTIONS = {
    "redis": 10_000,
    "redlock": 10_000,
    "memcached": 1024,
    "postgresql": 100,
    "mysql": 151,
}
"""As the servers come, by their own documentation; ZooKeeper has a limit per host instead."""
NODES = {"redlock": 5}
"""Whose load was added up: what each of them needs is a part of it."""
NOTHING = 0.02
"""Requests for a lock that are none: it goes along in a batch."""
OF_LOOP = 2
"""Sockets with which an event loop wakes itself."""

Measured = dict[str, Any]


def costs(engine: str, measured: Measured) -> Costs:
    """Numbers of three digits: there are no more that mean something."""
    found = _held(measured) | _paired(measured) | _waiting(measured)
    for key in ("renewal_server_cpu", "pair_server_cpu"):
        found[key] /= NODES.get(engine, 1)
    rounded = {key: float(f"{max(0.0, value):.3g}") for key, value in found.items()}
    return Costs(
        renews=measured["ttl"] is not None,
        served=measured["served"],
        **rounded,
        left_for=LEFT_FOR.get(engine, 0.0),
        cores=1 if engine in ONE_CORE else 0,
        most_connections=MOST_CONNECTIONS.get(engine, 0),
    )


def _held(measured: Measured) -> dict[str, float]:
    held, ttl, fixed = measured["held"], measured["ttl"], _fixed(measured)
    rounds = 1.0 if ttl is None else ttl / pacing.RENEWALS_PER_TTL
    last = _largest(measured)
    locks = last["locks"]

    def growth(key: str) -> float:
        """What one lock adds, for one renewal or for one second."""
        return float(rounds * (last[key] - fixed[key]) / locks)

    requests, batch = growth("requests_per_second"), 0.0
    if ttl is not None:
        requests, batch = _of_renewal(measured)
    stored = max(last["stored"], last["stored_later"])
    return {
        "process_requests": fixed["requests_per_second"],
        "renewal_requests": requests,
        "batch_requests": batch,
        "renewal_client_cpu": growth("client_cpu") / in_time(measured),
        "renewal_server_cpu": growth("server_cpu") / in_time(measured),
        "lock_stored": stored / locks,
        "lock_memory": last["client_bytes"] / locks,
        "connections": max(each["connections"] for each in held),
        "name_left": last["left"] / locks,
    }


def _fixed(measured: Measured) -> Measured:
    """What a process costs, however many locks it holds."""
    first, idle = measured["held"][0], measured["idle"]
    fixed: Measured = idle if measured["ttl"] is not None else first
    if measured["ttl"] and first["requests_per_second"] < idle["requests_per_second"]:
        # Who does something sends no less than who does nothing: these were counts that came late.
        fixed = {**fixed, "requests_per_second": 0.0}
    return fixed


def _largest(measured: Measured) -> Measured:
    found: Measured = max(measured["held"], key=lambda each: int(each["locks"]))
    return found


def _sent(measured: Measured, held: Measured) -> float:
    """What is sent for these locks, each time that all of them are renewed."""
    rounds = measured["ttl"] / pacing.RENEWALS_PER_TTL
    fixed = _fixed(measured)["requests_per_second"]
    return float(rounds * (held["requests_per_second"] - fixed))


def _of_renewal(measured: Measured) -> tuple[float, float]:
    """What is sent for a lock, and for a batch: the line through the small sizes, each of which was
    taken at once and so is one batch.
    """
    few = [each for each in measured["held"] if each["locks"] <= BATCH]
    sent = [_sent(measured, each) for each in few]
    mean_x, mean_y = sum(each["locks"] for each in few) / len(few), sum(sent) / len(few)
    spread = sum((each["locks"] - mean_x) ** 2 for each in few)
    along = [(each["locks"] - mean_x) * (y - mean_y) for each, y in zip(few, sent, strict=True)]
    of_lock = float(sum(along) / spread) if spread else mean_y
    of_lock = of_lock if of_lock > NOTHING else 0.0
    return of_lock, max(0.0, mean_y - mean_x * of_lock)


def in_time(measured: Measured) -> float:
    """Which part of the renewals of the largest size was sent while it was looked at: less than all
    where the machine was too busy for them. 1 where that cannot be seen in the requests.
    """
    if measured["ttl"] is None or not measured["served"]:
        return 1.0
    last, of_lock = _largest(measured), _of_renewal(measured)[0]
    wanted = of_lock * int(last["locks"])
    return min(1.0, _sent(measured, last) / wanted) if wanted else 1.0


def _paired(measured: Measured) -> dict[str, float]:
    most = max(measured["clients"], key=lambda each: each["pairs_per_second"])
    return {
        "pair_requests": most["requests"],
        "pair_client_cpu": measured["clients"][0]["client_cpu"],
        "pair_server_cpu": most["server_cpu"],
    }


def _waiting(measured: Measured) -> dict[str, float]:
    last = measured["waiting"][-1]
    waiters = max(1, last["waiters"])
    return {
        "waiter_requests": last["requests_per_second"] / waiters,
        "waiter_stored": last["stored"] / waiters,
        "waiter_memory": last["client_bytes"] / waiters,
        "waiting_connections": last["connections"] - OF_LOOP,
    }


def write(kept: dict[str, Any], path: Path = COSTS) -> None:
    """What the calculator reads, from all that was ever measured."""
    found = {
        name.partition(".")[2]: costs(name.partition(".")[2], said["measured"])._asdict()
        for name, said in kept.items()
    }
    path.write_text(json.dumps(found, indent=1) + "\n")
