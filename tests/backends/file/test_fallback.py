"""The plainer engine, forced on a system that could do better."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from locknut.backends.file import open_engine
from locknut.backends.file.fallback import FallbackBackend, FallbackEngine
from locknut.core.values import Busy, Capability, Renewal
from locknut.errors import BackendError, Unsupported
from tests.backends.file.driving import (
    Place,
    busy,
    claim,
    open_descriptors,
    permit,
    reader,
    release,
    run,
    take,
)


@pytest.fixture
def engine(directory: Path, monkeypatch: pytest.MonkeyPatch) -> FallbackEngine:
    monkeypatch.setattr("locknut.backends.file.kernel.works", lambda _: False)
    made = open_engine(Place(str(directory)))
    assert isinstance(made, FallbackEngine)
    return made


@pytest.fixture
def backend(engine: FallbackEngine) -> FallbackBackend:
    return engine.blocking()


def test_it_promises_less(backend: FallbackBackend) -> None:
    assert backend.capabilities == {
        Capability.FENCING,
        Capability.SHARED,
        Capability.SESSION,
        Capability.NO_EVICTION,
    }
    for wanted in (permit(1), claim(owner="o"), claim(fair=True)):
        with pytest.raises(Unsupported):
            run(backend.attempt(wanted, 0.0))
    held = claim()
    take(backend, held)
    for command in (backend.downgrade(held), backend.park(held, 1.0), backend.adopt(held, claim())):
        with pytest.raises(Unsupported):
            run(command)


def test_one_holds_at_a_time_with_growing_numbers(backend: FallbackBackend) -> None:
    before, first, second = open_descriptors(), claim(), claim()
    raw = take(backend, first)
    assert take(backend, first) == raw
    answers = [run(backend.attempt(second, 0.0)) for _ in range(20)]
    assert all(isinstance(answer, Busy) and 0 < answer.retry_in <= 0.05 for answer in answers)
    assert run(backend.renew([first, second])) == [Renewal.HELD, Renewal.LOST]
    assert release(backend, first)
    assert not release(backend, first)
    assert take(backend, second) > raw
    release(backend, second)
    assert open_descriptors() <= before


def test_readers_share(backend: FallbackBackend) -> None:
    one, two = reader(), reader()
    assert take(backend, one) != take(backend, two)
    assert busy(backend, claim())
    release(backend, one)
    assert busy(backend, claim())
    release(backend, two)
    take(backend, claim())
    assert busy(backend, reader())


def test_a_broken_hold_is_told(backend: FallbackBackend) -> None:
    held, label = claim(label="nightly"), "nightly"
    raw = take(backend, held)
    assert run(backend.inspect())[0].holders[0].label == label
    assert run(backend.break_hold("ns:a", raw + 1)) is None
    assert run(backend.break_hold("ns:a", raw))
    assert take(backend, claim()) > raw
    assert run(backend.renew([held])) == [Renewal.LOST]
    assert not release(backend, held)


def test_unused_files_are_removed_and_held_ones_stay(engine: FallbackEngine) -> None:
    backend, held, free = engine.blocking(), claim("ns:a"), claim("ns:b")
    take(backend, held)
    raw = take(backend, free)
    release(backend, free)
    assert engine.clean(unused_for=0.0) == 1
    assert run(backend.renew([held])) == [Renewal.HELD]
    assert take(backend, claim("ns:b")) > raw
    assert run(backend.inspect("ns:none")) == []


def test_a_forked_child_closes_and_never_unlocks(backend: FallbackBackend) -> None:
    held = claim()
    take(backend, held)
    pid = os.fork()
    if pid == 0:
        release(backend, held)
        os._exit(0)
    os.waitpid(pid, 0)
    assert busy(backend, claim())


def test_a_foreign_file_is_never_written_over(engine: FallbackEngine) -> None:
    Path(engine.path("ns:a")).write_text("my diary")
    with pytest.raises(BackendError, match="not a lock file"):
        run(engine.blocking().attempt(claim(), 0.0))
    assert Path(engine.path("ns:a")).read_text() == "my diary"


def test_the_engine_imports_where_there_is_no_fcntl() -> None:
    """As on Windows: only when a lock is taken must the system have locks at all."""
    program = "import sys; sys.modules['fcntl'] = None; import locknut.backends.file"
    subprocess.run([sys.executable, "-c", program], check=True, env=dict(os.environ))
