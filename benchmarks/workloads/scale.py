"""How the cost of one engine grows: with locks that are held, with waiters, and with clients.

One process holds 1 to 100,000 locks, as far as the engine and the time allow; another waits for
up to 1,000; up to 64 take and release a lock each. Counted are requests, bytes and connections,
which a busy machine does not change, and processor seconds, which it changes little.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from benchmarks import growth, scale_clients
from benchmarks.line_charts import LineChart
from benchmarks.numbers import Cell
from benchmarks.plan import Plan
from benchmarks.reporting import Table
from benchmarks.scale_clients import OPEN, RELEASE, REST, TAKE
from benchmarks.scale_places import PLACES, Place
from benchmarks.slices import Contender, Sample

LOCKS = (1, 10, 100, 1_000, 10_000, 100_000)
WAITERS = (1, 10, 100, 1_000)
CLIENTS = (1, 4, 16, 64)
REST_SECONDS, WAIT_SECONDS, PAIR_SECONDS = 10.0, 4.0, 1.5
TAKING = 300.0
"""Seconds: an engine that is slower is measured with what it has granted until then."""
PATIENCE = 2 * TAKING
FEW = 10
"""All sizes up to this, just to see that it runs."""
LASTING = 60.0
"""A ttl that needs no renewal while others wait."""

Measured = dict[str, Any]


def measure(plan: Plan, engine: str) -> Table:
    """One row for each size; what the calculator is made of is in `measured`."""
    table = Table(
        f"scale.{engine}: how its cost grows",
        ("", "how many", "requests/s", "client CPU %", "server CPU %", "client KiB", "stored KiB"),
    )
    with PLACES[engine]() as found:
        place = found if plan.complete else replace(found, settles=0.0)
        measured: Measured = {"ttl": place.ttl, "served": place.requests is not None}
        measured["idle"] = _idle(place, plan)
        measured["held"] = list(_held(place, plan, table))
        measured["waiting"] = [_waiting(place, each, plan) for each in _sizes(WAITERS, plan)]
        measured["clients"] = list(_all_clients(place, plan, table))
        if place.version:
            table.versions[engine] = place.version
    table.measured = measured
    _tell(table, measured)
    table.notes += growth.warnings(measured)
    table.charts += _charts(engine, measured)
    return table


def _sizes(full: tuple[int, ...], plan: Plan) -> list[int]:
    return [each for each in full if plan.complete or each <= FEW]


class _Watched:
    """What the server does while a client does one step."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self.before = self._now()

    def _now(self) -> Sample:
        place = self._place
        requests = 0.0 if place.requests is None else place.requests()
        return {"requests": requests, "stored": place.stored(), "server_cpu": place.cpu()}

    def step(self, contender: Contender, step: int) -> Sample:
        """What the client tells of itself, with what has changed at the server."""
        told = contender.run(step)
        time.sleep(self._place.settles if step in {OPEN, TAKE} else 0.0)
        now = self._now()
        changed = {key: now[key] - self.before[key] for key in now}
        self.before = now
        return {**told, **changed}


def _client(place: Place, what: str, group: int, locks: int, **options: float) -> Contender:
    told = {"url": place.url, "group": group, "locks": locks, "ttl": place.ttl, **options}
    return Contender(f"{scale_clients.__name__}:{what}", told, patience=PATIENCE)


def _rates(rested: Sample) -> Measured:
    wall = rested["wall"]
    return {
        "requests_per_second": rested["requests"] / wall,
        "client_cpu": rested["cpu"] / wall,
        "server_cpu": rested["server_cpu"] / wall,
    }


def _idle(place: Place, plan: Plan) -> Measured:
    """A process that has opened its locks and holds none."""
    seconds = plan.seconds(REST_SECONDS, 0.2)
    with _client(place, "holding", 0, 0, seconds=seconds, most=1.0) as contender:
        watched = _Watched(place)
        opened = watched.step(contender, OPEN)
        rested = watched.step(contender, REST)
    return {**_rates(rested), "connections": opened["connections"]}


def _held(place: Place, plan: Plan, table: Table) -> Iterator[Measured]:
    seconds = plan.seconds(REST_SECONDS, 0.2)
    reached = 0
    for locks in _sizes(LOCKS, plan):
        options = {"seconds": seconds, "most": TAKING}
        with _client(place, "holding", locks, locks, **options) as contender:
            watched = _Watched(place)
            opened = watched.step(contender, OPEN)
            taken = watched.step(contender, TAKE)
            rested = watched.step(contender, REST)
            released = watched.step(contender, RELEASE)
        held = int(taken["taken"])
        if held > reached:
            reached = held
            yield {
                "locks": held,
                **_rates(rested),
                "take_requests": taken["requests"] / held,
                "take_seconds": taken["wall"] / held,
                "release_requests": released["requests"] / held,
                "client_bytes": rested["memory"] - opened["memory"],
                "stored": taken["stored"],
                "stored_later": taken["stored"] + rested["stored"],
                "left": taken["stored"] + rested["stored"] + released["stored"],
                "connections": rested["connections"],
                "kept": int(released["kept"]),
            }
        if held < locks:
            why = "the engine gave no more" if taken["refused"] else "time was over"
            table.notes.append(f"stopped at {held:,} of {locks:,} locks: {why}")
            return


def _waiting(place: Place, waiters: int, plan: Plan) -> Measured:
    """One process waits for names that another one holds, and what that one does is not counted."""
    group = 9_000_000 + waiters
    seconds = plan.seconds(WAIT_SECONDS, 0.2)
    alone = place.shape == "threads"
    lasting = replace(place, ttl=None if place.ttl is None else LASTING)
    with (
        _client(lasting, "holding", group, waiters, seconds=seconds, most=TAKING) as holder,
        _client(place, "waiting", group, waiters, seconds=seconds, alone=alone) as waiter,
    ):
        watched = _Watched(place)
        watched.step(holder, OPEN)
        watched.step(holder, TAKE)
        quiet = _rates(watched.step(holder, REST))
        opened = watched.step(waiter, OPEN)
        begun = watched.step(waiter, TAKE)
        rested = watched.step(waiter, REST)
    rates = _rates(rested)
    for key in ("requests_per_second", "server_cpu"):
        rates[key] = max(0.0, rates[key] - quiet[key])
    return {
        "waiters": int(rested["waiting"]),
        **rates,
        "begin_requests": begun["requests"] / waiters,
        "client_bytes": rested["memory"] - opened["memory"],
        "stored": begun["stored"],
        "connections": rested["connections"],
    }


def _all_clients(place: Place, plan: Plan, table: Table) -> Iterator[Measured]:
    for clients in _sizes(CLIENTS, plan):
        try:
            yield _clients(place, clients, plan)
        except RuntimeError:
            table.notes.append(f"stopped before {clients} clients: one had no answer in time")
            return


def _clients(place: Place, clients: int, plan: Plan) -> Measured:
    seconds = plan.seconds(PAIR_SECONDS, 0.1)
    watched: list[_Watched] = []
    rate, client_cpu = scale_clients.pairs(
        place.url, place.ttl, place.shape, clients, seconds, lambda: watched.append(_Watched(place))
    )
    after = _Watched(place).before
    done = max(1.0, rate * seconds)
    before = watched[0].before
    return {
        "clients": clients,
        "pairs_per_second": rate,
        "client_cpu": client_cpu,
        "server_cpu": (after["server_cpu"] - before["server_cpu"]) / done,
        "requests": (after["requests"] - before["requests"]) / done,
    }


def _tell(table: Table, measured: Measured) -> None:
    for held in measured["held"]:
        table.add(
            f"held{'' if held['kept'] == held['locks'] else ' (lost some)'}",
            held["locks"],
            *_row(held),
        )
    for waiting in measured["waiting"]:
        table.add("waiting", waiting["waiters"], *_row(waiting))
    lost = sum(held["locks"] - held["kept"] for held in measured["held"])
    table.aim("locks that were lost", lost, 0, at_least=False)


def _row(found: Measured) -> tuple[Cell, ...]:
    return (
        found["requests_per_second"],
        100 * found["client_cpu"],
        100 * found["server_cpu"],
        found["client_bytes"] / 1024,
        found["stored"] / 1024,
    )


def _charts(engine: str, measured: Measured) -> list[LineChart]:
    held, clients = measured["held"], measured["clients"]
    lines = {"CPU of the client": _points(held, "locks", "client_cpu", 100)}
    if measured["served"]:
        lines["CPU of the server"] = _points(held, "locks", "server_cpu", 100)
        lines["requests per second"] = _points(held, "locks", "requests_per_second")
    return [
        LineChart(
            "held",
            f"{engine}: locks that one process holds",
            "per cent of a core, and requests in a second, while they are only kept",
            lines,
        ),
        LineChart(
            "clients",
            f"{engine}: clients, each with a lock of its own",
            "acquire and release, pairs per second of all together",
            {"pairs per second": _points(clients, "clients", "pairs_per_second")},
        ),
    ]


def _points(found: list[Measured], x: str, y: str, times: float = 1.0) -> list[tuple[float, float]]:
    return [(each[x], each[y] * times) for each in found]
