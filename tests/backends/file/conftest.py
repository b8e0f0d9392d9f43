"""A directory of lock files, engines on it, and other processes that are gone after the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from locknut.backends.file.backend import FileBackend
from locknut.backends.file.engine import FileEngine
from locknut.runtimes.threads import ThreadRuntime
from tests.backends.file.driving import Child, engine_in

_HERE = Path(__file__).parent


_OTHERS = (
    "unclosed <socket.socket .*family=(2|AddressFamily.AF_INET),",
    "unclosed transport",
    "unclosed <StreamWriter",
    "loop is closed",
)
"""What this engine never opens: TCP sockets, and what a loop makes of them."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that count descriptors collect garbage; what earlier tests of other engines left behind
    when they failed is not their fault.
    """
    for item in items:
        if item.path.is_relative_to(_HERE):
            for text in _OTHERS:
                item.add_marker(pytest.mark.filterwarnings(f"ignore:{text}:ResourceWarning"))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "locks"


@pytest.fixture
def engine(directory: Path) -> FileEngine:
    return engine_in(directory)


@pytest.fixture
def backend(engine: FileEngine) -> FileBackend:
    return engine.blocking(ThreadRuntime())


@pytest.fixture
def child(directory: Path) -> Iterator[Callable[[], Child]]:
    children: list[Child] = []

    def start() -> Child:
        children.append(Child(directory))
        return children[-1]

    yield start
    for one in children:
        one.end()
