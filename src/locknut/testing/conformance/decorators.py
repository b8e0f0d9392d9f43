"""Functions that run under a lock named after their arguments."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from locknut.errors import AcquireTimeout, ConfigurationError, LocknutError
from locknut.testing.conformance.scene import Scene
from locknut.testing.conformance.suite import Part


def _of_this_colour(scene: Scene, body: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, as a coroutine function where asyncio wants one."""
    if scene.colour.name == "blocking":
        return body

    async def function(user_id: Any, order: Any = None) -> Any:
        return body(user_id, order)

    return function


async def _call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    result = function(*args, **kwargs)
    return await result if hasattr(result, "__await__") else result


class Decorators(Part):
    """`@locks.locked(...)`."""

    async def test_the_name_comes_from_the_arguments(self, scene: Scene) -> None:
        locks = scene.connect()
        news = scene.news(locks)

        def body(user_id: Any, order: Any = None) -> Any:
            assert locks.lock(f"user:{user_id}:{order.id}").held
            return user_id, order.id

        function = locks.locked("user:{user_id}:{order.id}")(_of_this_colour(scene, body))
        order = SimpleNamespace(id=3)
        assert await _call(function, 7, order) == (7, 3)
        assert await _call(function, user_id=8, order=order) == (8, 3)
        granted = [event.name for event in news.events if event.kind == "granted"]
        assert granted == ["user:7:3", "user:8:3"]
        assert not await locks.list()

    async def test_a_default_may_be_part_of_the_name(self, scene: Scene) -> None:
        locks = scene.connect()
        function = _of_this_colour(
            scene, lambda user_id, order=None: locks.lock(f"{user_id}:{order}").held
        )
        assert await _call(locks.locked("{user_id}:{order}")(function), 7)

    async def test_busy_raises_by_default_without_waiting(self, scene: Scene) -> None:
        locks = scene.connect()
        ran: list[Any] = []
        function = locks.locked("u:{user_id}")(
            _of_this_colour(scene, lambda user_id, order=None: ran.append((user_id, order)))
        )
        async with scene.stranger("u:1"):
            with pytest.raises(AcquireTimeout):
                await _call(function, 1)
            await _call(function, 2)
        assert ran == [(2, None)]

    async def test_busy_may_skip(self, scene: Scene) -> None:
        locks = scene.connect()
        news = scene.news(locks)
        function = locks.locked("u:{user_id}", on_busy="skip")(
            _of_this_colour(
                scene,
                lambda user_id, _order=None: f"ran {user_id}: {locks.lock(f'u:{user_id}').held}",
            )
        )
        async with scene.stranger("u:1"):
            assert await _call(function, 1) is None
            assert await _call(function, 2) == "ran 2: True"
            assert not await locks.lock("u:2").locked()
        skipped = await news.heard("skipped")
        assert skipped.name == "u:1"

    async def test_busy_may_wait(self, scene: Scene) -> None:
        locks = scene.connect()
        news = scene.news(locks)
        function = locks.locked("u:{user_id}", on_busy="wait")(
            _of_this_colour(scene, lambda user_id, _order=None: f"ran {user_id}")
        )

        async def call() -> Any:
            return await _call(function, 1)

        async with scene.stranger("u:1"):
            worker = scene.spawn(call)
            await news.heard("waiting")
        assert await worker.result() == "ran 1"

    async def test_a_wrong_template_fails_when_decorating(self, scene: Scene) -> None:
        locks = scene.connect()
        function = _of_this_colour(scene, lambda user_id, order=None: (user_id, order))
        for template in ("u:{nobody}", "u:{}", "u:{0}", "u:{nobody.id}", "", "u:{user_id"):
            with pytest.raises(ConfigurationError):
                locks.locked(template)(function)
        for wrong in ({"on_busy": "explode"}, {"timeout": -3}, {"ttl": 0}, {"colour": "red"}):
            with pytest.raises((LocknutError, TypeError), match="|".join(wrong)):
                locks.locked("u", **wrong)

    async def test_without_brackets_it_says_what_is_missing(self, scene: Scene) -> None:
        locks = scene.connect()
        function = _of_this_colour(scene, lambda user_id, order=None: (user_id, order))
        function.__name__ = "report"
        with pytest.raises(ConfigurationError, match=r'@locked\("report"\)'):
            locks.locked(function)

    async def test_bodies_that_run_after_the_call_are_refused(self, scene: Scene) -> None:
        locks = scene.connect()

        def generator() -> Iterator[int]:
            yield 1

        async def asynchronous() -> AsyncIterator[int]:
            yield 1

        async def coroutine() -> None: ...

        def plain() -> None: ...

        for body in (generator, asynchronous):
            with pytest.raises(ConfigurationError, match="generator"):
                locks.locked("u")(body)
        if scene.colour.name == "blocking":
            with pytest.raises(ConfigurationError, match=r"coroutine is an async .* locknut\.aio"):
                locks.locked("u")(coroutine)
        else:
            with pytest.raises(ConfigurationError, match=r"plain is a plain .* of locknut$"):
                locks.locked("u")(plain)

    async def test_the_function_stays_itself(self, scene: Scene) -> None:
        def body(user_id: Any, order: Any = None) -> Any:
            """What it does."""
            return user_id, order

        function = _of_this_colour(scene, body)
        decorated = scene.connect().locked("u:{user_id}")(function)
        assert decorated.__name__ == function.__name__
        assert decorated.__wrapped__ is function

    async def test_errors_pass_and_the_lock_is_free(self, scene: Scene) -> None:
        locks = scene.connect()

        def body(user_id: Any, order: Any = None) -> Any:
            raise ZeroDivisionError(user_id, order)

        function = locks.locked("u:{user_id}")(_of_this_colour(scene, body))
        with pytest.raises(ZeroDivisionError):
            await _call(function, 1)
        assert not await locks.lock("u:1").locked()

    async def test_it_may_call_itself(self, scene: Scene) -> None:
        locks = scene.connect()

        if scene.colour.name == "blocking":

            @locks.locked("u:{n}")  # type: ignore[untyped-decorator]
            def down(n: int, depth: int = 3) -> Any:
                return down(n, depth - 1) if depth else "bottom"

        else:

            @locks.locked("u:{n}")  # type: ignore[untyped-decorator]
            async def down(n: int, depth: int = 3) -> Any:
                return await down(n, depth - 1) if depth else "bottom"

        assert await _call(down, 1) == "bottom"
        assert not await locks.list()
