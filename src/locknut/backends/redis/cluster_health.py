"""Whether a cluster serves all of its slots, and what the loss of one master stops."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from locknut.core import findings
from locknut.core.findings import Check, NotKnown, fail, ok, warn
from locknut.core.values import Finding
from locknut.drivers.redis import wire
from locknut.drivers.redis.cluster.hash_slots import SLOTS
from locknut.drivers.redis.pools import Pool
from locknut.drivers.redis.server_facts import refusal

CODES: Final = ("redis-cluster", "redis-cluster-replicas")
_QUESTIONS: Final = (
    wire.pack(b"CLUSTER", b"INFO"),
    wire.pack(b"CLUSTER", b"SLOTS"),
    wire.pack(b"CONFIG", b"GET", b"cluster-require-full-coverage"),
)


def check(masters: Callable[[], Mapping[str, Pool]]) -> Check:
    """What can be asked of all masters."""

    async def ask() -> list[Finding]:
        replies = {place: pool.send_many(_QUESTIONS) for place, pool in masters().items()}
        states = {place: [_state(info)] for place, (info, _, _) in replies.items()}
        _, slots, coverage = next(iter(replies.values()))
        replicas = findings.judged(CODES[1], lambda: _replicas(slots, coverage))
        return [*findings.merged(states), replicas]

    return Check(CODES, ask)


def _state(info: Any) -> Finding:
    code = CODES[0]
    if refused := refusal(info):
        return findings.unknown(code, f"The node does not tell its state: {refused}.")
    told = dict(line.split(":", 1) for line in info.decode().split("\r\n") if ":" in line)
    served = int(told["cluster_slots_ok"])
    if told["cluster_state"] != "ok":
        found = f"The node says that the cluster is down: {served} of {SLOTS} slots are served."
        advice = "Start the nodes that are missing, or give their slots to others."
        return fail(code, found, advice)
    if served < SLOTS:
        found = f"{SLOTS - served} of {SLOTS} slots are not served: their locks are out of reach."
        return fail(code, found, "Start the nodes that are missing, or give their slots to others.")
    return ok(code, f"The cluster serves all of its {SLOTS} slots.")


def _replicas(slots: Any, coverage: Any) -> Finding:
    code = CODES[1]
    if refused := refusal(slots):
        raise NotKnown(f"The node does not tell who serves which slots: {refused}.")
    shards = {(bytes(each[2][0]), int(each[2][1])): len(each) - 3 for each in slots}
    alone = [f"{host.decode()}:{port}" for (host, port), count in shards.items() if not count]
    if not alone:
        return ok(code, "Every master of the cluster has a replica.")
    all_stop = not refusal(coverage) and coverage and coverage[1] == b"yes"
    stops = "all locks of the cluster stop" if all_stop else "the locks of its slots stop"
    found = f"{', '.join(alone)} has no replica: while that master is away, {stops}."
    advice = "Give every master a replica"
    if all_stop:
        advice += ", or set cluster-require-full-coverage to no"
    return warn(code, found, f"{advice}.")
