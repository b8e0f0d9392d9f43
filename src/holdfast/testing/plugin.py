"""Fixtures for those who test code that uses Holdfast: locks on a clock that only the test moves.

Installed with Holdfast, so that pytest finds it by itself; docs/testing.md shows how to use it.
Nothing of Holdfast's testing tools is imported until a fixture is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import holdfast
    from holdfast import aio
    from holdfast.core.holding import LeaseCore
    from holdfast.testing.clock import Clock
    from holdfast.testing.standins import SomebodyElse, World

pytest.register_assert_rewrite("holdfast.testing.conformance")


@pytest.fixture
def _holdfast_world() -> World:
    from holdfast.testing.standins import World

    return World()


@pytest.fixture
def clock(_holdfast_world: World) -> Clock:
    """The time of `locks` and `aio_locks`: stands still until `clock.advance(seconds)`."""
    return _holdfast_world.clock


@pytest.fixture
def locks(_holdfast_world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[holdfast.Locks]:
    """A blocking Locks on a fresh memory engine; `holdfast.lock(...)` uses it too."""
    import holdfast

    made = _holdfast_world.locks()
    monkeypatch.setattr(holdfast, "default", lambda: made)
    yield made
    _holdfast_world.close(made._client)


@pytest.fixture
def aio_locks(_holdfast_world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[aio.Locks]:
    """An asyncio Locks on the same engine; `holdfast.aio.lock(...)` uses it too."""
    from holdfast import aio

    made = _holdfast_world.aio_locks()
    monkeypatch.setattr(aio, "default", lambda: made)
    yield made
    _holdfast_world.close(made._client)


@pytest.fixture
def hold(_holdfast_world: World) -> Callable[..., SomebodyElse]:
    """`hold(name)`: somebody else has it, until `.release()` or the end of a `with`."""
    return _holdfast_world.hold


@pytest.fixture
def lose(_holdfast_world: World) -> Callable[[LeaseCore], None]:
    """`lose(lease)`: the hold is lost, now, and the holder has been told."""
    return _holdfast_world.lose


@pytest.fixture
def fail_backend(_holdfast_world: World) -> Callable[[], AbstractContextManager[None]]:
    """The engine cannot be reached, inside a `with` on what this gives."""
    return _holdfast_world.fail_backend


@pytest.fixture
def assert_held(_holdfast_world: World) -> Callable[[str], None]:
    """`assert_held(name)`: fails unless somebody holds it."""
    return _holdfast_world.assert_held
