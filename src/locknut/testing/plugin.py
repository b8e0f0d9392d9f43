"""The pytest plugin: fixtures for tests of code that uses Locknut.

The plugin is installed with Locknut, so pytest finds it by itself; docs/testing.md shows how to use
it. It imports no other testing tool of Locknut's until a test asks for a fixture.
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
    from locknut.testing.fake_clock import Clock
    from locknut.testing.fake_engines import SomebodyElse
    from locknut.testing.fakes import FakeLocks
    from locknut.testing.order_of_locks import LockOrder

pytest.register_assert_rewrite("locknut.testing.conformance")


def pytest_addoption(parser: pytest.Parser) -> None:
    sentence = "tests that use real locks without saying so: allow, refuse, or replace them"
    parser.addini("locknut_real_locks", sentence, default="")


def pytest_configure(config: pytest.Config) -> None:
    from locknut.testing import real_locks

    config.addinivalue_line("markers", f"{real_locks.MARKER}: this test uses real locks")
    real_locks.configure(config)


@pytest.fixture(autouse=True)
def _locknut_fakes_first(request: pytest.FixtureRequest) -> None:
    """Start the fakes before all other fixtures of a test, whatever order it names them in."""
    from locknut.testing import real_locks

    if real_locks.are_replaced(request):
        request.getfixturevalue(real_locks.FIXTURE)


@pytest.fixture
def locknut_fakes(request: pytest.FixtureRequest) -> Iterator[FakeLocks]:
    """Fake every lock of this process until the test ends. All other fixtures use this one."""
    if request.node.get_closest_marker("locknut_real"):
        pytest.fail("the marker locknut_real and a fixture of fake locks contradict each other")
    from locknut.testing.fakes import fake_locks

    with fake_locks() as fakes:
        yield fakes


@pytest.fixture
def locknut_lock_order() -> Iterator[LockOrder]:
    """Fail the test if it takes locks in orders that can deadlock. Locks stay real or fake."""
    from locknut.testing.order_of_locks import lock_order

    with lock_order() as order:
        yield order


@pytest.fixture
def locknut_clock(locknut_fakes: FakeLocks) -> Clock:
    """The clock of all locks. It stands still until `locknut_clock.advance(seconds)`."""
    return locknut_fakes.clock


@pytest.fixture
def locknut_locks(locknut_fakes: FakeLocks) -> locknut.Locks:
    """A blocking Locks on fake locks; it shares them with `locknut.lock(...)`."""
    return locknut_fakes.locks()


@pytest.fixture
def locknut_aio_locks(locknut_fakes: FakeLocks) -> aio.Locks:
    """An asyncio Locks on the same fake locks."""
    return locknut_fakes.aio_locks()


@pytest.fixture
def locknut_hold(locknut_fakes: FakeLocks) -> Callable[..., SomebodyElse]:
    """`locknut_hold(name)`: somebody else holds it until `.release()` or the end of a `with`."""
    return locknut_fakes.hold


@pytest.fixture
def locknut_lose(locknut_fakes: FakeLocks) -> Callable[[LeaseCore | str], None]:
    """`locknut_lose(lease or name)`: the hold is lost at once, and its holder has been notified."""
    return locknut_fakes.lose


@pytest.fixture
def locknut_fail_backend(
    locknut_fakes: FakeLocks,
) -> Callable[[], AbstractContextManager[None]]:
    """A function that returns a context in which no engine can be reached."""
    return locknut_fakes.fail_backend


@pytest.fixture
def locknut_assert_held(locknut_fakes: FakeLocks) -> Callable[[str], None]:
    """`locknut_assert_held(name)` fails the test unless somebody holds the lock."""
    return locknut_fakes.assert_held
