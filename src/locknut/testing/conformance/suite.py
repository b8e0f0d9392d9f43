"""The base of every part of the suite: turns `async def test_...` into tests of both colours."""

from __future__ import annotations

import functools
import inspect
import secrets
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from locknut.core.ports import Engine
from locknut.core.values import Capability
from locknut.testing.conformance.colours import COLOURS
from locknut.testing.conformance.scene import Scene
from locknut.urls import open_engine

F = TypeVar("F", bound=Callable[..., Any])


def needs(*capabilities: Capability) -> Callable[[F], F]:
    """This test is about something an engine may declare, or not."""

    def mark(test: F) -> F:
        test.needs = capabilities  # type: ignore[attr-defined]  # read by `_in_colour`
        return test

    return mark


class Part:
    """A part of the suite. Every coroutine test runs in both colours, with a `Scene` of its own."""

    pytestmark = pytest.mark.locknut_real  # whatever the project says: this is about a real engine
    url: str = ""
    """The engine under test. Override the fixture `engine_url` where it depends on others."""
    colours: tuple[str, ...] = tuple(COLOURS)

    @pytest.fixture
    def engine_url(self) -> str:
        """Where the engine is; for each test anew."""
        return self.url

    def open_engine(self, url: str) -> Engine:
        """The engine as one more client finds it; override to test one without a URL scheme."""
        return open_engine(url)[0]

    def new_namespace(self) -> str:
        """Where one test keeps its locks: nobody else uses a namespace of this name."""
        return f"test-{secrets.token_hex(6)}"

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name, test in list(vars(cls).items()):
            if name.startswith("test_") and inspect.iscoroutinefunction(test):
                setattr(cls, name, _in_colour(test, cls.colours))


def _in_colour(test: Callable[..., Any], colours: tuple[str, ...]) -> Callable[..., Any]:
    wanted: tuple[Capability, ...] = getattr(test, "needs", ())
    known = list(inspect.signature(test).parameters.values())
    extra = [each for each in known if each.name not in {"self", "scene"}]

    def both(self: Part, engine_url: str, colour: str, **others: Any) -> None:
        paint = COLOURS[colour]()

        async def body() -> None:
            scene = Scene(paint, lambda: self.open_engine(engine_url), self.new_namespace())
            for capability in wanted:
                if not scene.has(capability):
                    pytest.skip(f"the {scene.backend} engine does not declare {capability.value!r}")
            try:
                await test(self, scene, **others)
            except BaseException:  # or what it left open is found in the next test
                await scene.hang_up()
                raise
            await scene.close()

        paint.run(body())

    functools.update_wrapper(both, test)
    del both.__wrapped__  # type: ignore[attr-defined]  # pytest shall see this signature
    kinds = [
        inspect.Parameter(each, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        for each in ("self", "engine_url", "colour")
    ]
    both.__signature__ = inspect.Signature(kinds + extra)  # type: ignore[attr-defined]
    marked: Callable[..., Any] = pytest.mark.parametrize("colour", colours)(both)
    return marked
