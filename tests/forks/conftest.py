"""Every engine in turn, as a URL: what holds after a fork holds on all of them."""

from __future__ import annotations

import secrets
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import locknut
from tests.api.crowd import PATIENCE

SERVERS = {
    "redis": "redis_server",
    "redlock": "redlock_nodes",
    "zookeeper": "zookeeper_server",
}
"""Which fixture has the server of an engine."""
SHARED = [pytest.param(name, marks=getattr(pytest.mark, name)) for name in ("file", *SERVERS)]
"""Engines whose locks a parent and its child have in common."""
EVERY = [*SHARED, pytest.param("memory", marks=pytest.mark.memory)]


@pytest.fixture
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Of the engine that the test names (`indirect`), with names of its own."""
    engine = request.param
    if engine == "file":
        return f"file://{tmp_path}"
    if engine == "memory":
        return f"memory:{secrets.token_hex(8)}"
    server = request.getfixturevalue(SERVERS[engine]).url
    options = {"zookeeper": "session_timeout=40&"}.get(engine, "")  # else a ttl is at most 7.5 s
    return f"{server}{'&' if '?' in server else '?'}{options}namespace={secrets.token_hex(8)}"


def single_permit(locks: Any) -> Any:
    """A semaphore, where the engine has them."""
    if locknut.Capability.PERMITS in locks.capabilities:
        return locks.semaphore("s", 1, timeout=PATIENCE)
    return locks.lock("s", timeout=PATIENCE)


@pytest.fixture(autouse=True)
def _fork_with_threads_is_the_point() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


@pytest.fixture(autouse=True)
def _nobody_in_a_hurry(patient_callers: None) -> None:
    """A non-blocking attempt is answered, however busy the machine is."""
