"""What one lock, one waiter and one process cost each engine, as `make bench ARGS=scale` found it.

The numbers are in `costs.json`, which the benchmark writes; docs/operations/capacity.md is made of
the same run. Requests, bytes and connections are the same everywhere. Processor seconds are those
of the machine that it was measured on.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from locknut import urls
from locknut.core import validation
from locknut.errors import ConfigurationError


class Costs(NamedTuple):
    """Of one engine. Processor time is in seconds, sizes are in bytes."""

    renews: bool
    """Whether each lock is renewed at a third of its ttl. Otherwise what is said of a renewal is
    what a lock costs in a second: its process or its session keeps all of them at once.
    """
    served: bool
    """Whether there is a server; without one the clients do all of it."""
    process_requests: float
    """In a second, of a process that holds something, however much."""
    renewal_requests: float
    batch_requests: float
    """For each batch of renewals, besides."""
    renewal_client_cpu: float
    renewal_server_cpu: float
    pair_requests: float
    """To acquire and to release a lock."""
    pair_client_cpu: float
    pair_server_cpu: float
    lock_stored: float
    """While it is held, at the engine."""
    lock_memory: float
    """While it is held, in the client."""
    waiter_requests: float
    """In a second."""
    waiter_stored: float
    waiter_memory: float
    connections: float
    """Of one process that holds locks, and acquires them in one thread."""
    waiting_connections: float
    """Of one process whose tasks wait, besides."""
    name_left: float
    """Of a name that nobody uses any more."""
    left_for: float
    """How long that stays, in seconds."""
    cores: int
    """How many a server can use; 0 for all that it has."""
    most_connections: int
    """As the server comes; 0 for no limit."""


@cache
def _all() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads(
        files("locknut.capacity").joinpath("costs.json").read_text(encoding="utf-8")
    )
    return found


ENGINES = tuple(_all())
"""Those that were measured."""
_ALSO_CALLED = {"valkey": "redis", "mariadb": "mysql", "postgres": "postgresql"}


def costs_of(engine: str) -> Costs:
    """Of an engine by its name, or by a URL of it."""
    scheme = urls.parse(engine).scheme if ":" in engine else engine.strip().lower()
    called = scheme.partition("+")[0]
    for each in (called, called.removesuffix("s")):  # rediss, redlocks
        name = _ALSO_CALLED.get(each, each)
        if name in ENGINES:
            return Costs(**_all()[name])
    meant = validation.nearest(scheme, ENGINES) or f"; there are: {', '.join(ENGINES)}"
    raise ConfigurationError(f"nothing was measured for the engine {scheme!r}{meant}")
