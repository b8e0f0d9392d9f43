"""History: what an engine remembers of the events of its clients, and how much of it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

import pytest

from locknut.core.recording import ROUTINE, STREAMS, TROUBLES, stream_key
from locknut.core.values import Capability
from locknut.errors import BackendUnavailable, Unsupported
from locknut.testing.conformance.scene import Scene
from locknut.testing.conformance.suite import Part, needs

SPARE = 200
"""An engine may keep so many more than it was asked to, besides as many again."""


def key(scene: Scene, stream: str) -> str:
    return stream_key(f"{scene.namespace}:", stream)


async def texts(scene: Scene, stream: str) -> list[str]:
    found = await scene.port().read_history(key(scene, stream))
    return [text for _, text in found.texts]


def kinds(entries: Sequence[Any]) -> list[tuple[str, str]]:
    return [(entry.kind, entry.name) for entry in entries]


async def written(scene: Scene, *expected: tuple[str, str]) -> list[Any]:
    """The history as soon as it has these. Whoever closes waits for its last batch, but only for a
    second; what takes longer on a busy machine is written behind it.
    """
    reader = scene.connect()

    async def look() -> list[Any]:
        with suppress(BackendUnavailable):  # on a busy machine an answer may come too late
            found: list[Any] = await reader.history()
            return found if set(expected) <= set(kinds(found)) else []
        return []

    return cast("list[Any]", await scene.eventually(look, f"not written: {expected}"))


@asynccontextmanager
async def remembering(scene: Scene) -> AsyncIterator[None]:
    """Nothing is left behind in a server that others use."""
    try:
        yield
    finally:
        for stream in STREAMS:
            await scene.port().write_history(key(scene, stream), [], 0)


class PastEvents(Part):
    """`connect(history=N)`, `history()`, and the two verbs of the port."""

    @needs(Capability.HISTORY)
    async def test_what_happened_outlives_the_client(self, scene: Scene) -> None:
        async with remembering(scene):
            locks = scene.connect(history=50, label="writer")
            async with locks.lock("order:1") as lease:
                fence, secret = lease.fence, lease._hold.claim.id
            async with locks.lock("other"):
                pass
            await locks.close()
            every = await written(scene, ("released", "order:1"), ("released", "other"))
            reader = scene.connect()
            granted, released = await reader.history("order:*", since="1h")
            assert (granted.kind, released.kind) == ("granted", "released")
            assert granted.name == released.name == "order:1"
            assert granted.fence == released.fence == fence
            assert granted.label == "writer"
            assert granted.pid
            assert granted.who
            assert granted.mode == "exclusive"
            assert granted.waited >= 0
            assert released.held >= 0
            assert granted.time <= released.time
            json.dumps(granted._asdict())
            assert len(every) == 4
            assert secret not in repr(every) + repr(await texts(scene, ROUTINE))

    @needs(Capability.HISTORY)
    async def test_a_break_and_its_loss_are_remembered(self, scene: Scene) -> None:
        async with remembering(scene):
            holder = scene.connect(history=50, label="holder")
            breaker = scene.connect(history=50, label="breaker")
            news = scene.news(holder)
            lease = await holder.lock("x", ttl=scene.safe_ttl).acquire()
            await breaker.force_release("x", fence=lease.fence, reason="it hangs")
            await news.heard("lost")
            await holder.close()
            await breaker.close()
            found = await written(scene, ("broken", "x"), ("granted", "x"), ("lost", "x"))
            assert sorted(kinds(found)) == [("broken", "x"), ("granted", "x"), ("lost", "x")]
            assert {entry.fence for entry in found} == {lease.fence}
            by_kind = {entry.kind: entry for entry in found}
            assert by_kind["broken"].reason == "it hangs"
            assert by_kind["broken"].label == "breaker"
            assert by_kind["lost"].label == "holder"
            assert by_kind["lost"].reason

    @needs(Capability.HISTORY)
    async def test_routine_does_not_push_troubles_out(self, scene: Scene) -> None:
        async with remembering(scene):
            locks = scene.connect(history=5)
            await locks.lock("bad", ttl=scene.safe_ttl).acquire()
            assert await locks.force_release("bad")
            await locks.close()
            await written(scene, ("broken", "bad"))
            flood = [f"{number}" for number in range(1000)]
            await scene.port().write_history(key(scene, ROUTINE), flood, 5)
            assert ("broken", "bad") in kinds(await scene.connect().history())

    @needs(Capability.HISTORY)
    async def test_namespaces_do_not_see_each_other(self, scene: Scene) -> None:
        async with remembering(scene):
            locks = scene.connect(history=50)
            async with locks.lock("x"):
                pass
            await locks.close()
            await written(scene, ("released", "x"))
            assert await scene.connect(namespace=scene.namespace + "-2").history() == []

    @needs(Capability.HISTORY)
    async def test_what_is_written_twice_is_shown_once(self, scene: Scene) -> None:
        """The answer to a writing may be lost: it is written again."""
        async with remembering(scene):
            locks = scene.connect(history=50)
            async with locks.lock("x"):
                pass
            await locks.close()
            before = await written(scene, ("granted", "x"), ("released", "x"))
            once = await texts(scene, ROUTINE)
            await scene.port().write_history(key(scene, ROUTINE), once, 50)
            assert len(await texts(scene, ROUTINE)) == 2 * len(once)
            assert [each.id for each in await scene.connect().history()] == [
                each.id for each in before
            ]

    @needs(Capability.HISTORY)
    async def test_what_others_wrote_is_passed_over(self, scene: Scene) -> None:
        async with remembering(scene):
            strange = ["", "{", "[]", "7", '{"id": 3}', '{"id":"a-1","age":"x"}', "\x00\u2028é\n"]
            port = scene.port()
            await port.write_history(key(scene, TROUBLES), strange, 50)
            assert await scene.connect().history() == []
            assert await texts(scene, TROUBLES) == strange

    @needs(Capability.HISTORY)
    async def test_a_stream_is_bounded_and_in_order(self, scene: Scene) -> None:
        async with remembering(scene):
            port, stream = scene.port(), key(scene, ROUTINE)
            written = [f"entry {number}" for number in range(1000)]
            for start in range(0, 1000, 250):
                await port.write_history(stream, written[start : start + 250], 20)
            kept = await texts(scene, ROUTINE)
            assert 20 <= len(kept) <= 2 * 20 + SPARE
            assert kept == written[-len(kept) :]

    @needs(Capability.HISTORY)
    async def test_only_the_latest_can_be_read(self, scene: Scene) -> None:
        async with remembering(scene):
            port, stream = scene.port(), key(scene, ROUTINE)
            await port.write_history(stream, ["old"], 20)
            await scene.pause(1.0)
            now, ((at, text),) = await port.read_history(stream, 3600.0)
            assert text == "old"
            assert at < now
            assert not (await port.read_history(stream, 0.5)).texts

    @needs(Capability.HISTORY)
    async def test_a_stream_can_be_removed(self, scene: Scene) -> None:
        async with remembering(scene):
            port, stream = scene.port(), key(scene, ROUTINE)
            await port.write_history(stream, ["x"], 20)
            await port.write_history(stream, [], 0)
            await port.write_history(stream, [], 0)
            assert not (await port.read_history(stream)).texts

    async def test_an_engine_without_history_says_so(self, scene: Scene) -> None:
        if not scene.has(Capability.HISTORY):
            with pytest.raises(Unsupported, match="history"):
                scene.connect(history=5)
            with pytest.raises(Unsupported, match="history"):
                await scene.connect().history()
