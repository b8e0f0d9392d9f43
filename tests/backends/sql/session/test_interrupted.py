"""Ctrl-C at any moment around a lock in a database leaves no ghost, and uses up no connection."""

from __future__ import annotations

import secrets
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from locknut.drivers.postgresql.sync import BlockingLine
from locknut.runtimes.threads import Guard, run
from tests.api import interrupting, stepped
from tests.servers.databases import Database

if TYPE_CHECKING:
    from locknut.drivers.postgresql.server_session import Session
    from locknut.drivers.postgresql.session_pool import SessionPool

pytestmark = pytest.mark.faults
ONE_SESSION = ("plain", "timed", "shared", "two_steps", "decorated", "skipping", "first", "crowded")
"""What session mode can do, with two connections."""


def url(database: Database, mode: str) -> str:
    """With no more connections than are needed: one that is lost is missed."""
    few = f"mode={mode}&connections=2&timeout=20"
    return f"{database.url}?{few}&namespace={secrets.token_hex(4)}"


@pytest.mark.slow
def test_session_mode_at_some_moments(database: Database) -> None:
    interrupting.stepping(url(database, "session"), "crowded", 97)


@pytest.mark.parametrize("kind", ONE_SESSION)
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_session_mode_at_many_moments(database: Database, kind: str) -> None:
    interrupting.stepping(url(database, "session"), kind, 17, patience=550)


@pytest.mark.parametrize("kind", stepped.KINDS)
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_lease_mode_at_many_moments(database: Database, kind: str) -> None:
    interrupting.stepping(url(database, "lease"), kind, 17, patience=550)


class _InterruptedRightAfter(set[int]):
    """As Ctrl-C does: what is not Python is done, and then it raises."""

    def add(self, thread: int) -> None:
        super().add(thread)
        raise KeyboardInterrupt


def test_a_thread_that_was_interrupted_is_not_inside_a_command() -> None:
    """Or else it would be refused for good, as a finalizer that interrupts us is."""
    line = BlockingLine(cast("SessionPool", SimpleNamespace(guard=Guard())))
    line._busy = _InterruptedRightAfter()
    with pytest.raises(KeyboardInterrupt):
        run(line.drive(cast("Session", None), cast("Any", None), 0.0))
    assert not line.inside()
