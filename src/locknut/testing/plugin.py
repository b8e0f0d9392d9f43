"""Fixtures for those who test code that uses Locknut: locks on a clock that only the test moves.

Installed with Locknut, so that pytest finds it by itself; docs/testing.md shows how to use it.
Nothing of Locknut's testing tools is imported until a fixture is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import locknut
    from locknut import aio
    from locknut.core.holding import LeaseCore
    from locknut.testing.clock import Clock
    from locknut.testing.standins import SomebodyElse, World

pytest.register_assert_rewrite("locknut.testing.conformance")


@pytest.fixture
def _locknut_world() -> World:
    from locknut.testing.standins import World

    return World()


@pytest.fixture
def clock(_locknut_world: World) -> Clock:
    """The time of `locks` and `aio_locks`: stands still until `clock.advance(seconds)`."""
    return _locknut_world.clock


@pytest.fixture
def locks(_locknut_world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[locknut.Locks]:
    """A blocking Locks on a fresh memory engine; `locknut.lock(...)` uses it too."""
    import locknut

    made = _locknut_world.locks()
    monkeypatch.setattr(locknut, "default", lambda: made)
    yield made
    _locknut_world.close(made._client)


@pytest.fixture
def aio_locks(_locknut_world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[aio.Locks]:
    """An asyncio Locks on the same engine; `locknut.aio.lock(...)` uses it too."""
    from locknut import aio

    made = _locknut_world.aio_locks()
    monkeypatch.setattr(aio, "default", lambda: made)
    yield made
    _locknut_world.close(made._client)


@pytest.fixture
def hold(_locknut_world: World) -> Callable[..., SomebodyElse]:
    """`hold(name)`: somebody else has it, until `.release()` or the end of a `with`."""
    return _locknut_world.hold


@pytest.fixture
def lose(_locknut_world: World) -> Callable[[LeaseCore], None]:
    """`lose(lease)`: the hold is lost, now, and the holder has been told."""
    return _locknut_world.lose


@pytest.fixture
def fail_backend(_locknut_world: World) -> Callable[[], AbstractContextManager[None]]:
    """The engine cannot be reached, inside a `with` on what this gives."""
    return _locknut_world.fail_backend


@pytest.fixture
def assert_held(_locknut_world: World) -> Callable[[str], None]:
    """`assert_held(name)`: fails unless somebody holds it."""
    return _locknut_world.assert_held
