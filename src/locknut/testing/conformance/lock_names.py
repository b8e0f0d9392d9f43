"""Any text is a name, and different texts are different locks, on every engine."""

from __future__ import annotations

import pytest

from locknut.testing.conformance.scene import Scene
from locknut.testing.conformance.suite import Part

LONG = "x" * 1000
NAMES = [
    "a", "A", "a ", " a", "a\n", "a\r\n", "a\x00", "a\x00b", "\x00", "\t", " ", ".", "..", "/",
    "//", "../a", "/etc/passwd", "a/b", "a\\b", "a:b", "a::b", ":", "a%3Ab", "a%2Fb", "%", "%00",
    "{a}", "{}", "*", "?", "[a]", "a*", "'", '"', "; DROP TABLE locks", "$(id)", "`id`", "~", "-rf",
    "#", "&", "\u00e9", "e\u0301", "\u212b", "\u00c5", "A\u030a", "\u00df", "ss", "SS", "\u0130",
    "i\u0307", "\ufeffa", "\u200ba", "\U0001f512", "\U0001f512\ufe0f", "\u202ea",
    "\u65e5\u672c\u8a9e", "con", "CON", "nul", "zookeeper", "locknut", "lock", "LOCK",
    "None", "0", "00", "-0", "1e3",
    LONG, LONG + "a", LONG + "b", LONG + "A", LONG + "\u00e9", LONG + "e\u0301", "\u00e9" * 512,
    "\U0001f512" * 256, "y" * 255, "y" * 256, "y" * 250, "y" * 64, "y" * 63 + "Y",
]  # fmt: skip


class LockNames(Part):
    """Names."""

    async def test_all_of_them_can_be_held_at_once(self, scene: Scene) -> None:
        assert len(set(NAMES)) == len(NAMES)
        locks, other = scene.connect(), scene.connect()
        leases = []
        for name in NAMES:
            lease = await locks.lock(name).acquire(blocking=False)
            assert lease is not None, f"{name!r} is shut out by another name"
            leases.append(lease)
        assert {each.name for each in await other.list()} == set(NAMES)
        for name, lease in zip(NAMES, leases, strict=True):
            assert await other.lock(name).locked()
            assert (await other.info(name)).name == lease.name == name
        for lease in leases:
            await lease.release()

    @pytest.mark.parametrize(
        "name", ["a\x00b", "..", "/", "\U0001f512", LONG + "\u00e9", "e\u0301"]
    )
    async def test_each_excludes_itself(self, scene: Scene, name: str) -> None:
        lock = scene.connect().lock(name)
        async with scene.connect().lock(name):

            async def ask() -> object:
                return await lock.acquire(timeout=0)

            assert await scene.spawn(ask).result() is None
        assert await scene.spawn(ask).result() is not None

    async def test_namespaces_never_meet(self, scene: Scene) -> None:
        inner = scene.connect(namespace=f"{scene.namespace}-2")
        outer = scene.connect()
        async with outer.lock("b"), inner.lock("b"), inner.lock("-2:b"), outer.lock("2:b"):
            assert {each.name for each in await outer.list()} == {"b", "2:b"}
            assert {each.name for each in await inner.list()} == {"b", "-2:b"}
            assert inner.namespace == f"{scene.namespace}-2"

    async def test_listing_by_pattern(self, scene: Scene) -> None:
        locks = scene.connect()
        async with locks.lock("order:1"), locks.lock("order:2"), locks.lock("user:1"):
            assert [each.name for each in await locks.list("order:*")] == ["order:1", "order:2"]
            assert [each.name for each in await locks.list("ORDER:*")] == []
