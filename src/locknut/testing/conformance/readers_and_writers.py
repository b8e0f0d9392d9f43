"""Many readers or one writer: which may hold together, and that a writer is not starved."""

from __future__ import annotations

from typing import Any

import pytest

from locknut.core.values import Capability, Mode
from locknut.errors import DeadlockDetected
from locknut.testing.conformance.scene import Scene
from locknut.testing.conformance.suite import Part, needs

SHARED = Capability.SHARED


async def _try(scene: Scene, lock: Any) -> bool:
    """Whether somebody else gets it now; given back at once."""

    async def ask() -> bool:
        lease = await lock.acquire(blocking=False)
        if lease is not None:
            await lease.release()
        return lease is not None

    return bool(await scene.spawn(ask).result())


class ReadersAndWriters(Part):
    """Read-write locks."""

    @needs(SHARED)
    async def test_readers_share_and_keep_writers_out(self, scene: Scene) -> None:
        clients = [scene.connect().rwlock("x") for _ in range(3)]
        leases = [await each.read().acquire(timeout=0) for each in clients]
        assert all(lease.mode is Mode.SHARED for lease in leases)
        assert len({lease.fence for lease in leases}) == 3
        writer = scene.connect().rwlock("x").write()
        assert not await _try(scene, writer)
        for lease in leases:
            assert not await _try(scene, writer)
            await lease.release()
        assert await _try(scene, writer)

    @needs(SHARED)
    async def test_readers_of_one_client_share(self, scene: Scene) -> None:
        shared = scene.connect().rwlock("x")
        async with shared.read():
            assert await _try(scene, shared.read())
            assert not await _try(scene, shared.write())

    @needs(SHARED)
    async def test_a_writer_is_alone(self, scene: Scene) -> None:
        first, second = scene.connect().rwlock("x"), scene.connect().rwlock("x")
        async with first.write() as lease:
            assert lease.mode is Mode.EXCLUSIVE
            for shared in (first, second):
                assert not await _try(scene, shared.read())
                assert not await _try(scene, shared.write())
        assert await _try(scene, second.write())

    @needs(SHARED)
    async def test_a_plain_lock_of_the_same_name_is_a_writer(self, scene: Scene) -> None:
        locks = scene.connect()
        async with locks.rwlock("x").read():
            assert not await _try(scene, locks.lock("x"))
        async with locks.lock("x"):
            assert not await _try(scene, locks.rwlock("x").read())

    @needs(SHARED)
    async def test_fences_grow_from_readers_to_writers_and_back(self, scene: Scene) -> None:
        fences = []
        for locks in (scene.connect(), scene.connect()):
            for lock in (locks.rwlock("x").read(), locks.rwlock("x").write()):
                async with lock as lease:
                    fences.append(lease.fence)
        assert fences == sorted(set(fences))

    @needs(SHARED)
    async def test_a_waiting_writer_is_not_starved(self, scene: Scene) -> None:
        readers, writers = scene.connect(), scene.connect()
        news = scene.news(writers)
        order: list[str] = []

        async def write() -> None:
            async with writers.rwlock("x").write():
                order.append("write")

        async def read() -> None:
            async with readers.rwlock("x").read():
                order.append("read")

        async def kept_out() -> bool:
            """The writer's place in the line may come a little after the news."""
            return not await _try(scene, readers.rwlock("x").read())

        first = await readers.rwlock("x").read().acquire()
        writer = scene.spawn(write)
        await news.heard("waiting")
        await scene.eventually(kept_out, "readers overtake a waiting writer")
        heard = scene.news(readers)
        reader = scene.spawn(read)
        await heard.heard("waiting")
        await first.release()
        await writer.result()
        await reader.result()
        assert order == ["write", "read"]

    @needs(SHARED)
    async def test_reading_again_while_a_writer_waits(self, scene: Scene) -> None:
        shared, writers = scene.connect().rwlock("x"), scene.connect()
        news = scene.news(writers)

        async def write() -> None:
            async with writers.rwlock("x").write():
                pass

        async with shared.read() as outer:
            writer = scene.spawn(write)
            await news.heard("waiting")
            async with shared.read() as inner:
                assert inner.fence == outer.fence
        await writer.result()

    @needs(SHARED)
    async def test_writing_again(self, scene: Scene) -> None:
        shared = scene.connect().rwlock("x")
        async with shared.write() as outer, shared.write() as inner:
            assert inner.fence == outer.fence
        assert await _try(scene, shared.write())

    @needs(SHARED)
    async def test_a_reader_asking_to_write_is_told_at_once(self, scene: Scene) -> None:
        shared = scene.connect().rwlock("x")
        async with shared.read() as lease:
            with pytest.raises(DeadlockDetected) as caught:
                await shared.write().acquire()
            assert isinstance(caught.value, RuntimeError)
            with pytest.raises(DeadlockDetected):
                await shared.write().acquire(blocking=False)
            assert lease.held
        assert await _try(scene, shared.write())

    @needs(SHARED)
    async def test_a_writer_may_read(self, scene: Scene) -> None:
        shared = scene.connect().rwlock("x")
        async with shared.write() as write:
            async with shared.read() as read:
                assert read.fence == write.fence
                assert read.mode is Mode.SHARED
                async with shared.read():
                    assert not await _try(scene, shared.read())
            assert write.held
            assert not await _try(scene, shared.read())
        assert await _try(scene, shared.write())

    @needs(SHARED, Capability.DOWNGRADE)
    async def test_a_downgrade_lets_waiting_readers_in_and_no_writer(self, scene: Scene) -> None:
        locks, readers, writers = (scene.connect() for _ in range(3))
        shared = locks.rwlock("x")
        heard, about_writers = scene.news(readers), scene.news(writers)
        inside = scene.gate()
        done = scene.gate()
        wrote = scene.gate()

        async def read() -> None:
            async with readers.rwlock("x").read():
                inside.open()
                assert await done.passed()

        async def write() -> None:
            async with writers.rwlock("x").write():
                wrote.open()

        await shared.write().acquire()
        read_lease = await shared.read().acquire()
        reader = scene.spawn(read)
        await heard.heard("waiting")
        writer = scene.spawn(write)
        await about_writers.heard("waiting")
        await shared.write().release()
        assert await inside.passed()
        assert read_lease.held
        assert read_lease.mode is Mode.SHARED
        assert not wrote.is_open()
        with pytest.raises(DeadlockDetected):
            await shared.write().acquire(blocking=False)
        done.open()
        await reader.result()
        await shared.read().release()
        await writer.result()

    @needs(SHARED)
    async def test_many_readers_and_writers(self, scene: Scene) -> None:
        clients = [scene.connect() for _ in range(2)]
        inside: list[str] = []

        async def work(number: int) -> None:
            shared = clients[number % 2].rwlock("x")
            for turn in range(6):
                if (number + turn) % 3 == 0:
                    async with shared.write():
                        assert not inside
                        inside.append("write")
                        await scene.pause(0)
                        inside.remove("write")
                else:
                    async with shared.read():
                        assert "write" not in inside
                        inside.append("read")
                        await scene.pause(0)
                        inside.remove("read")

        crowd = [scene.spawn(lambda n=n: work(n)) for n in range(8)]  # type: ignore[misc]
        for each in crowd:
            await each.result()
        assert not inside
