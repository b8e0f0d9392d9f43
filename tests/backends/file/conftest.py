"""A directory of lock files, engines on it, and other processes that are gone after the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from locknut.backends.file.backend import FileBackend
from locknut.backends.file.engine import FileEngine
from tests.backends.file.driving import Child, engine_in


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "locks"


@pytest.fixture
def engine(directory: Path) -> FileEngine:
    return engine_in(directory)


@pytest.fixture
def backend(engine: FileEngine) -> FileBackend:
    return engine.blocking()


@pytest.fixture
def child(directory: Path) -> Iterator[Callable[[], Child]]:
    children: list[Child] = []

    def start() -> Child:
        children.append(Child(directory))
        return children[-1]

    yield start
    for one in children:
        one.end()
