"""Metrics in prometheus_client: what is counted, in both colours, and what it may cost others."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

import locknut
from locknut import aio, metrics, opening
from locknut.metrics.catalogue import METRICS, REASONS
from tests.metrics.scrape import samples, value
from tests.servers.processes import until


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def locks() -> Iterator[locknut.Locks]:
    with locknut.connect("memory:metrics") as made:
        yield made


@pytest.fixture
def others() -> Iterator[locknut.Locks]:
    """Another process's locks, as far as the first one knows."""
    with locknut.connect("memory:metrics") as made:
        yield made


X = {"backend": "memory", "lock": "x:*", "mode": "exclusive"}


def test_a_quiet_life(locks: locknut.Locks, registry: CollectorRegistry) -> None:
    metrics.prometheus(locks, registry=registry)
    with locks.lock("x:1"):
        assert value(registry, "locknut_held", **X) == 1
    with locks.lock("x:2"):
        pass
    assert value(registry, "locknut_acquire_total", **X, outcome="acquired") == 2
    assert value(registry, "locknut_wait_seconds_count", **X) == 2
    assert value(registry, "locknut_hold_seconds_count", **X) == 2
    assert value(registry, "locknut_held", **X) == 0
    assert value(registry, "locknut_contended_total") == 0
    for op in ("acquire", "release"):
        assert value(registry, "locknut_backend_seconds_count", backend="memory", op=op) == 2


def test_no_name_of_a_lock_is_a_label(locks: locknut.Locks, registry: CollectorRegistry) -> None:
    metrics.prometheus(locks, registry=registry)
    for number in range(50):
        with locks.lock(f"customer:secret-{number}"):
            pass
    page = generate_latest(registry).decode()
    assert "secret" not in page
    assert value(registry, "locknut_acquire_total", lock="customer:*") == 50


def test_families_are_bounded(locks: locknut.Locks, registry: CollectorRegistry) -> None:
    metrics.prometheus(locks, registry=registry, families=3)
    for name in ("a", "b", "c", "d", "e", "a"):
        with locks.lock(name):
            pass
    page = samples(generate_latest(registry).decode())
    labels = {dict(labels).get("lock") for name, labels in page if name == "locknut_held"}
    assert labels == {"a", "b", "c", "*"}
    assert value(registry, "locknut_acquire_total", lock="*") == 2


def test_outcomes(locks: locknut.Locks, others: locknut.Locks, registry: CollectorRegistry) -> None:
    metrics.prometheus(locks, registry=registry)
    with others.lock("x:1"):
        assert locks.lock("x:1").acquire(blocking=False) is None
        assert locks.lock("x:1").acquire(timeout=0.05) is None

    def count(outcome: str) -> float:
        return value(registry, "locknut_acquire_total", **X, outcome=outcome)

    assert (count("busy"), count("timeout"), count("acquired")) == (1, 1, 0)
    assert value(registry, "locknut_contended_total", **X) == 2
    assert value(registry, "locknut_wait_seconds_count", **X) == 1
    assert value(registry, "locknut_wait_seconds_sum", **X) >= 0.05
    assert value(registry, "locknut_waiting", **X) == 0


def test_who_waits_is_a_gauge(
    locks: locknut.Locks, others: locknut.Locks, registry: CollectorRegistry
) -> None:
    metrics.prometheus(locks, registry=registry)

    def work() -> None:
        with locks.lock("x:1"):
            pass

    with others.lock("x:1"):
        crowd = [threading.Thread(target=work) for _ in range(3)]
        for each in crowd:
            each.start()
        until(lambda: value(registry, "locknut_waiting", **X) == 3, "three wait")
    for each in crowd:
        each.join()
    assert value(registry, "locknut_waiting", **X) == 0
    assert value(registry, "locknut_held", **X) == 0
    assert value(registry, "locknut_contended_total", **X) == 3
    assert value(registry, "locknut_acquire_total", **X, outcome="acquired") == 3


def test_a_loss_has_its_reason(
    locks: locknut.Locks, others: locknut.Locks, registry: CollectorRegistry
) -> None:
    metrics.prometheus(locks, registry=registry)
    lease = locks.lock("x:1").acquire()
    assert lease
    others.force_release("x:1", reason="a note that must not become a label")
    assert lease.lost.wait(30)
    until(lambda: value(registry, "locknut_lost_total", **X, reason="broken") == 1, "a loss")
    assert value(registry, "locknut_held", **X) == 0
    assert "note" not in generate_latest(registry).decode()


def test_the_first_loss_is_an_increase(locks: locknut.Locks, registry: CollectorRegistry) -> None:
    """A counter that begins at 1 has not grown, and no alert rule would hear of it."""

    def counters() -> dict[str | None, float]:
        page = samples(generate_latest(registry).decode())
        return {
            dict(labels).get("reason"): found
            for (name, labels), found in page.items()
            if name == "locknut_lost_total"
        }

    metrics.prometheus(locks, registry=registry)
    assert counters() == {}, "nothing can be lost"
    with locks.lock("x:1"):
        assert counters() == dict.fromkeys(REASONS, 0.0)
    lease = locks.lock("x:2").acquire()
    assert lease
    locks.force_release("x:2")
    assert lease.lost.wait(30)
    until(lambda: counters() == dict.fromkeys(REASONS, 0.0) | {"broken": 1.0}, "a loss")


def test_an_abandoned_lease_is_counted(locks: locknut.Locks, registry: CollectorRegistry) -> None:
    metrics.prometheus(locks, registry=registry)

    def leave() -> None:
        locks.lock("x:1").acquire()

    thread = threading.Thread(target=leave)
    thread.start()
    thread.join()
    gc.collect()
    until(lambda: value(registry, "locknut_lost_total", **X, reason="abandoned") == 1, "a loss")
    assert value(registry, "locknut_held", **X) == 0


def test_the_margin_of_a_renewal(locks: locknut.Locks, registry: CollectorRegistry) -> None:
    metrics.prometheus(locks, registry=registry)
    with locks.lock("x:1", ttl=30) as lease:
        lease.renew()
        assert value(registry, "locknut_renew_total", **X, outcome="confirmed") == 1
        assert 20 < value(registry, "locknut_lease_margin_seconds_sum", **X) <= 30
        assert 0.6 < value(registry, "locknut_lease_margin_ratio_sum", **X) <= 1


def test_the_keeper_is_measured_when_it_was_there_before(
    locks: locknut.Locks, registry: CollectorRegistry
) -> None:
    with locks.lock("x:1", ttl=0.5):
        metrics.prometheus(locks, registry=registry)
        until(lambda: value(registry, "locknut_renew_total", outcome="confirmed") >= 2, "two")
        assert value(registry, "locknut_backend_seconds_count", op="renew") >= 2
        assert value(registry, "locknut_held") == 0, "it was held before"
    assert value(registry, "locknut_held") == 0


def test_what_is_skipped_is_counted(
    locks: locknut.Locks, others: locknut.Locks, registry: CollectorRegistry
) -> None:
    metrics.prometheus(locks, registry=registry)

    @locks.locked("x:{number}", on_busy="skip")
    def function(number: int) -> int:
        return number

    with others.lock("x:1"):
        assert function(1) is None
    assert value(registry, "locknut_skipped_total", **X) == 1


def test_a_skipped_run_of_a_slot_is_counted(
    locks: locknut.Locks, others: locknut.Locks, registry: CollectorRegistry
) -> None:
    metrics.prometheus(locks, registry=registry)
    scheduled = time.time()
    for host, begins in ((others, True), (locks, False), (locks, False)):
        with host.once("x:1", at=scheduled) as lease:
            assert (lease is not None) is begins
    skipped = {"backend": "memory", "lock": "x:*"}
    assert value(registry, "locknut_skipped_total", **skipped) == 2


def test_a_gauge_tells_who_leads(locks: locknut.Locks, registry: CollectorRegistry) -> None:
    metrics.prometheus(locks, registry=registry)

    def work(_term: object) -> float:
        return value(registry, "locknut_held", lock="scheduler")

    assert locks.election("scheduler").run(work) == 1
    assert value(registry, "locknut_held", lock="scheduler") == 0


def test_an_engine_that_fails_is_counted(
    locks: locknut.Locks, registry: CollectorRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object, **__: object) -> Any:
        raise locknut.BackendError("no")

    monkeypatch.setattr(locks._client.backend, "attempt", fail)
    metrics.prometheus(locks, registry=registry)
    with pytest.raises(locknut.BackendError):
        locks.lock("x:1").acquire()
    errors = {"backend": "memory", "op": "acquire", "kind": "BackendError"}
    assert value(registry, "locknut_backend_errors_total", **errors) == 1
    assert value(registry, "locknut_acquire_total", **X, outcome="error") == 1


def test_asyncio_and_its_cancellation(registry: CollectorRegistry) -> None:
    async def main() -> None:
        async with aio.connect("memory:metrics") as locks, aio.connect("memory:metrics") as others:
            metrics.prometheus(locks, registry=registry)
            async with locks.lock("x:1") as lease:
                await lease.renew()
                assert value(registry, "locknut_held", **X) == 1
            async with others.lock("x:1"):
                waits = asyncio.Event()
                locks.on_event(lambda event: waits.set() if event.kind == "waiting" else None)
                waiter = asyncio.ensure_future(locks.lock("x:1").acquire())
                await waits.wait()
                assert value(registry, "locknut_waiting", **X) == 1
                waiter.cancel()
                with suppress(asyncio.CancelledError):
                    await waiter

    asyncio.run(main())
    assert value(registry, "locknut_acquire_total", **X, outcome="acquired") == 1
    assert value(registry, "locknut_acquire_total", **X, outcome="cancelled") == 1
    assert value(registry, "locknut_waiting", **X) == 0
    assert value(registry, "locknut_held", **X) == 0
    assert value(registry, "locknut_renew_total", **X, outcome="confirmed") == 1


def test_the_whole_process(registry: CollectorRegistry) -> None:
    with locknut.connect("memory:early") as early:
        stop = metrics.prometheus(registry=registry)
        try:
            with locknut.connect("memory:late") as late, early.lock("x:1"), late.lock("x:1"):
                assert value(registry, "locknut_held", **X) == 2
            assert value(registry, "locknut_acquire_total", **X) == 2
        finally:
            stop()
        with early.lock("x:1"), locknut.connect("memory:later") as later, later.lock("x:1"):
            pass
        assert value(registry, "locknut_acquire_total", **X) == 2
        assert not later._events.measured


def test_what_is_turned_on_twice_is_counted_once(
    locks: locknut.Locks, registry: CollectorRegistry
) -> None:
    stop = metrics.prometheus(registry=registry)
    try:
        metrics.prometheus(locks, registry=registry)
        metrics.prometheus(registry=registry)
        with locks.lock("x:1"):
            pass
        assert value(registry, "locknut_acquire_total", **X) == 1
        assert value(registry, "locknut_backend_seconds_count", op="acquire") == 1
    finally:
        stop()


def test_turning_it_off_forgets_what_is_held(
    locks: locknut.Locks, registry: CollectorRegistry
) -> None:
    stop = metrics.prometheus(locks, registry=registry)
    with locks.lock("x:1"):
        assert value(registry, "locknut_held") == 1
        stop()
        stop()
        assert value(registry, "locknut_held") == 0
    assert value(registry, "locknut_held") == 0


def test_a_registry_that_fails_harms_nobody(
    locks: locknut.Locks, registry: CollectorRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    metrics.prometheus(locks, registry=registry)
    (observer,) = locks._events.observers

    def explode(*_: object) -> None:
        raise ZeroDivisionError

    values = observer.sink.series.system  # type: ignore[attr-defined]
    monkeypatch.setattr(values, "series", lambda *_: explode)
    with locks.lock("x:1") as lease:
        lease.renew()


def test_a_finalizer_that_releases_inside_a_measurement(
    locks: locknut.Locks, registry: CollectorRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """prometheus_client's mutexes are not re-entrant: it would wait for itself."""
    metrics.prometheus(locks, registry=registry)
    inner = locks.lock("y:1").acquire()
    assert inner
    (observer,) = locks._events.observers
    values = observer.sink.series.system  # type: ignore[attr-defined]
    before = values.series
    seen: list[Any] = []

    def series(metric: Any, labels: Any) -> Any:
        take = before(metric, labels)

        def take_and_release(*measured: float) -> None:
            take(*measured)
            if not seen:
                seen.append(labels)
                inner.release()  # as a finalizer would, on this thread, in the middle
                assert value(registry, "locknut_held", lock="y:*") == 1, "not measured in between"

        return take_and_release

    monkeypatch.setattr(values, "series", series)
    with locks.lock("x:1"):
        pass
    assert seen
    assert value(registry, "locknut_held") == 0
    assert value(registry, "locknut_hold_seconds_count") == 2


def test_every_metric_of_the_catalogue_is_in_the_registry(registry: CollectorRegistry) -> None:
    with locknut.connect("memory:metrics") as locks:
        metrics.prometheus(locks, registry=registry)
        names = {family.name for family in registry.collect()}
    assert names == {each.name.removesuffix("_total") for each in METRICS if each.name}


@pytest.mark.parametrize(
    ("given", "said"),
    [({"families": 0}, "families"), ({"families": True}, "families"), ({"locks": "x"}, "a Locks")],
)
def test_wrong_words(given: dict[str, Any], said: str) -> None:
    with pytest.raises(locknut.ConfigurationError, match=said):
        metrics.prometheus(**given)


def test_another_bound_for_the_same_registry_is_refused(
    locks: locknut.Locks, registry: CollectorRegistry
) -> None:
    metrics.prometheus(locks, registry=registry)
    with pytest.raises(locknut.ConfigurationError, match="families=200"):
        metrics.prometheus(locks, registry=registry, families=7)


def test_nothing_stays_on_between_tests() -> None:
    assert not opening._sinks
