"""The calculator: what comes out follows from what goes in, and limits are where they should be."""

from __future__ import annotations

import math
from typing import Any

import pytest

from locknut.capacity import ENGINES, Costs, Demand, costs_of, estimate
from locknut.capacity.estimate import BUSY, batches_of
from locknut.errors import ConfigurationError

NOTHING = Costs._make([0] * len(Costs._fields))._replace(renews=True, served=True)


def test_a_lock_is_renewed_three_times_per_ttl() -> None:
    costs = NOTHING._replace(renewal_requests=1.0, renewal_server_cpu=10e-6)
    needs = estimate(Demand(50_000, ttl=30.0, processes=200), costs)
    assert needs.renewals == needs.requests == 5_000
    assert needs.server_cpu == pytest.approx(0.05)
    twice = estimate(Demand(50_000, ttl=60.0, processes=200), costs)
    assert (twice.renewals, twice.requests) == (2_500, 2_500)


def test_what_is_not_renewed_does_not_depend_on_the_ttl() -> None:
    costs = NOTHING._replace(renews=False, process_requests=2.0, renewal_client_cpu=1e-6)
    short, long = (estimate(Demand(1_000, ttl=ttl, processes=10), costs) for ttl in (1.0, 100.0))
    assert short == long
    assert short.renewals == 0
    assert short.requests == 20
    assert short.client_cpu == pytest.approx(1e-4)


def test_a_process_that_holds_nothing_sends_nothing() -> None:
    costs = NOTHING._replace(process_requests=2.0, batch_requests=1.0, renewal_requests=1.0)
    assert estimate(Demand(0, processes=10), costs).requests == 0


@pytest.mark.parametrize(
    ("locks", "batches"), [(0, 0), (1, 1), (7, 7), (10, 10), (500, 10), (5_000, 10), (50_000, 100)]
)
def test_batches_are_few(locks: int, batches: float) -> None:
    assert batches_of(locks) == pytest.approx(batches)


def test_pairs_waiters_and_old_names_add_up() -> None:
    costs = NOTHING._replace(
        pair_requests=2.0, pair_server_cpu=1e-3, waiter_requests=0.5, waiter_stored=100.0,
        lock_stored=400.0, name_left=50.0, left_for=3600.0,
    )  # fmt: skip
    needs = estimate(Demand(10, waiters=4, rate=100.0, new_names=100.0), costs)
    assert needs.requests == 202
    assert needs.server_cpu == pytest.approx(0.1)
    assert needs.left == 100 * 3600 * 50
    assert needs.stored == 10 * 400 + 4 * 100 + needs.left


def test_a_busy_server_needs_a_second_one_and_says_up_to_where_one_is_enough() -> None:
    costs = NOTHING._replace(renewal_server_cpu=10e-6, cores=1)
    most = int(estimate(Demand(1, ttl=30.0), costs).most_locks)
    assert most == pytest.approx(BUSY / (3 / 30.0 * 10e-6), abs=1)
    enough = estimate(Demand(most, ttl=30.0, processes=100), costs)
    assert (enough.servers, enough.problems) == (1, [])
    more = estimate(Demand(2 * most + 10, ttl=30.0, processes=100), costs)
    assert more.servers == 3
    assert "cluster" in more.problems[0]


def test_more_cores_help_a_server_that_can_use_them() -> None:
    demand = Demand(1_000_000, ttl=30.0, processes=100, cores=8)
    costs = NOTHING._replace(renewal_server_cpu=30e-6)
    assert estimate(demand, costs).servers == 1
    assert estimate(demand, costs._replace(cores=1)).servers == 6


def test_a_process_that_has_too_much_to_renew_is_named() -> None:
    costs = NOTHING._replace(renewal_client_cpu=10e-6)
    assert not estimate(Demand(100_000, ttl=30.0), costs).problems
    assert "each process" in estimate(Demand(1_000_000, ttl=30.0), costs).problems[0]
    assert not estimate(Demand(1_000_000, ttl=30.0, processes=10), costs).problems


def test_too_many_connections_are_named() -> None:
    costs = NOTHING._replace(connections=2.0, waiting_connections=1.0, most_connections=100)
    assert not estimate(Demand(50, processes=50), costs).problems
    assert "100" in estimate(Demand(50, processes=50, waiters=1), costs).problems[0]


def test_without_a_server_there_are_no_requests_and_the_process_is_the_limit() -> None:
    needs = estimate(Demand(10, ttl=3.0), NOTHING._replace(served=False, renewal_client_cpu=1e-6))
    assert (needs.requests, needs.servers, needs.most_locks) == (0, 0, 500_000)
    assert math.isinf(estimate(Demand(10), NOTHING).most_locks)


@pytest.mark.parametrize(
    "wrong", [{"locks": -1}, {"ttl": 0.0}, {"processes": 0}, {"rate": math.inf}, {"cores": 0}]
)
def test_what_cannot_be_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=f"{next(iter(wrong))} cannot be"):
        estimate(Demand(1)._replace(**wrong), NOTHING)


CALLED = {
    "redis": ("rediss+cluster://h", "valkey+unix:/s", " Redis "),
    "redlock": ("redlocks://a,b,c",),
    "file": ("file:", "file:///var/lock"),
    "mysql": ("mariadb://h/d",),
    "postgresql": ("postgres",),
    "etcd": ("etcd+tls://h",),
}


@pytest.mark.parametrize(
    ("text", "engine"),
    [(text, engine) for engine in ENGINES for text in CALLED.get(engine, (f"{engine}://h",))],
)
def test_a_url_or_a_name_says_which_engine(text: str, engine: str) -> None:
    assert costs_of(text) == costs_of(engine)


@pytest.mark.parametrize("text", ["", "rediz", "http://x"])
def test_an_engine_that_was_not_measured_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="nothing was measured"):
        costs_of(text)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_measured_costs_can_be(engine: str) -> None:
    costs = costs_of(engine)
    assert all(value >= 0 and math.isfinite(value) for value in costs)
    assert 500 < costs.lock_memory < 20_000
    if costs.served:
        assert 2 <= costs.pair_requests < 30
        assert 1 <= costs.connections <= 20
