"""Users of one sticky directory, where nobody may remove the files of others: of both engines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import locknut
from locknut.core.values import Renewal
from locknut.runtimes.threads import ThreadRuntime
from tests.backends.file.driving import DEADLINE, claim, release, run, take
from tests.backends.file.users import by_user, shared_directory

EngineIn = Callable[[Path], Any]


def a_break_by_another_user_does_no_harm(engine_in: EngineIn) -> None:
    """It is refused, or it is a break like any other; and the name is of use to both afterwards."""
    with shared_directory(0o3770) as directory:

        def use() -> bool:
            return _use(directory)

        def break_it() -> bool:
            with locknut.connect(f"file://{directory}") as locks:
                return locks.force_release("a")

        assert by_user(1001, use) is True
        held, backend = claim("locknut:a"), engine_in(directory).blocking(ThreadRuntime())
        take(backend, held)
        assert "sticky" in by_user(1002, break_it)
        assert run(backend.renew([held])) == [Renewal.HELD]
        assert release(backend, held)
        assert by_user(1002, use) is True
        take(backend, held := claim("locknut:a"))
        assert by_user(1001, break_it) is True
        assert run(backend.renew([held])) == [Renewal.LOST]
        assert by_user(1002, use) is True


def cleaning_by_another_user_does_no_harm(engine_in: EngineIn) -> None:
    """What another user has made stays, and stays of use."""
    with shared_directory(0o3770) as directory:

        def use() -> bool:
            return _use(directory)

        assert by_user(1001, use) is True
        assert by_user(1002, lambda: engine_in(directory).clean(unused_for=0.0)) == 0
        assert by_user(1002, use) is True
        assert by_user(1001, lambda: engine_in(directory).clean(unused_for=0.0)) == 1


def _use(directory: Path) -> bool:
    with locknut.connect(f"file://{directory}").lock("a", timeout=DEADLINE):
        return True
