"""What is refused at the door, before the engine is asked, by an error that names the argument."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from locknut.core.values import Capability, Mode
from locknut.errors import ConfigurationError, Unsupported
from locknut.testing.conformance.scene import Scene
from locknut.testing.conformance.suite import Part

BAD_DURATIONS: list[Any] = [-2, -0.5, math.nan, True, "soon", "", b"1", [], Decimal(1), "-1s"]
BAD_TTLS: list[Any] = [*BAD_DURATIONS, 0, -1, math.inf, 1e-9, 1e30, 2**70]
BAD_NAMES: list[Any] = ["", None, 1, b"x", ["x"], "\ud800", "x" * 1025, "é" * 513]
BAD_PERMITS: list[Any] = [0, -1, 1.5, True, "3", None, math.nan]
BAD_NAMESPACES: list[Any] = ["", "a:b", "a b", "ä", "x" * 129, "a/b", 7]
BAD_HISTORIES: list[Any] = [-1, 10_001, True, 1.5, "many", None]
BAD_COHORTS: list[Any] = [-1, 32, True, 1.5, "16", None]


class RefusedArguments(Part):
    """Bad input."""

    async def test_bad_ttls(self, scene: Scene) -> None:
        locks = scene.connect()
        for ttl in BAD_TTLS:
            with pytest.raises(ConfigurationError, match="ttl") as caught:
                locks.lock("x", ttl=ttl)
            assert isinstance(caught.value, ValueError)

    async def test_a_ttl_at_the_limits_is_kept(self, scene: Scene) -> None:
        locks = scene.connect()
        least, most = scene.limits
        for ttl in (least, most):
            assert locks.lock("x", ttl=ttl).name == "x"
        for ttl in (math.nextafter(least, 0), math.nextafter(most, math.inf)):
            with pytest.raises(ConfigurationError, match="ttl"):
                locks.lock("x", ttl=ttl)

    async def test_bad_timeouts(self, scene: Scene) -> None:
        locks = scene.connect()
        for timeout in BAD_DURATIONS:
            with pytest.raises(ConfigurationError, match="timeout"):
                locks.lock("x", timeout=timeout)
            with pytest.raises(ConfigurationError, match="timeout"):
                await locks.lock("x").acquire(timeout=timeout)
            with pytest.raises(ConfigurationError, match="timeout"):
                await locks.all("x", "y").acquire(timeout=timeout)
        assert not await locks.list()

    async def test_bad_max_hold(self, scene: Scene) -> None:
        locks = scene.connect()
        for longest in [*BAD_DURATIONS, 0, math.inf]:
            with pytest.raises(ConfigurationError, match="max_hold"):
                locks.lock("x", max_hold=longest)

    async def test_bad_names(self, scene: Scene) -> None:
        locks = scene.connect()
        for name in BAD_NAMES:
            shared = [locks.rwlock] if scene.has(Capability.SHARED) else []
            for make in (locks.lock, *shared, locks.all, locks.info):
                with pytest.raises(ConfigurationError, match="name"):
                    made = make(name)
                    if make == locks.info or hasattr(made, "__await__"):
                        await made
        with pytest.raises(ConfigurationError, match="owner"):
            locks.lock("x", owner="")

    async def test_bad_permits(self, scene: Scene) -> None:
        if not scene.has(Capability.PERMITS):
            return
        locks = scene.connect()
        for permits in BAD_PERMITS:
            with pytest.raises(ConfigurationError, match="permits"):
                locks.semaphore("x", permits)

    async def test_bad_namespaces(self, scene: Scene) -> None:
        for namespace in BAD_NAMESPACES:
            with pytest.raises(ConfigurationError, match="namespace"):
                scene.connect(namespace=namespace)

    async def test_bad_cohorts(self, scene: Scene) -> None:
        for cohort in BAD_COHORTS:
            with pytest.raises(ConfigurationError, match="cohort"):
                scene.connect(cohort=cohort)

    async def test_bad_histories(self, scene: Scene) -> None:
        for history in BAD_HISTORIES:
            with pytest.raises(ConfigurationError, match="history"):
                scene.connect(history=history)

    async def test_bad_on_lost(self, scene: Scene) -> None:
        with pytest.raises(ConfigurationError, match="on_lost"):
            scene.connect().lock("x", on_lost="explode")

    async def test_a_capability_that_does_not_exist(self, scene: Scene) -> None:
        with pytest.raises(ConfigurationError, match="magic"):
            scene.connect(require={"magic"})

    async def test_what_the_engine_lacks_is_refused_by_name(self, scene: Scene) -> None:
        locks = scene.connect(require=scene.capabilities)
        assert locks.capabilities == scene.capabilities
        for missing in set(Capability) - scene.capabilities:
            with pytest.raises(Unsupported, match=missing.value) as caught:
                scene.connect(require={missing.value})
            assert caught.value.backend == scene.backend
        uses: dict[Capability, Callable[[], object]] = {
            Capability.SHARED: lambda: locks.rwlock("x"),
            Capability.PERMITS: lambda: locks.semaphore("x", 2),
            Capability.FAIR: lambda: locks.lock("x", fair=True),
            Capability.OWNERS: lambda: locks.lock("x", owner="ann"),
        }
        for capability, use in uses.items():
            if not scene.has(capability):
                with pytest.raises(Unsupported, match=capability.value):
                    use()

    async def test_an_engine_that_cannot_detach_says_so_and_the_hold_stays(
        self, scene: Scene
    ) -> None:
        if scene.has(Capability.DETACHING):
            return
        locks = scene.connect()
        async with locks.lock("x") as lease:
            with pytest.raises(Unsupported, match="detaching"):
                await lease.detach()
            assert lease.held
        with pytest.raises(Unsupported, match="detaching"):
            await locks.attach("locknut1.")

    async def test_an_engine_that_cannot_downgrade_says_so_and_the_read_keeps_the_hold(
        self, scene: Scene
    ) -> None:
        if scene.has(Capability.DOWNGRADE) or not scene.has(Capability.SHARED):
            return
        locks, other = scene.connect(), scene.connect()
        shared = locks.rwlock("x")
        write = await shared.write().acquire()
        read = await shared.read().acquire()
        with pytest.raises(Unsupported, match="downgrade"):
            await write.release()
        assert not write.held
        assert read.held
        assert read.mode is Mode.SHARED
        assert await other.rwlock("x").write().acquire(blocking=False) is None
        await shared.read().release()
        await scene.free(other, "x")
