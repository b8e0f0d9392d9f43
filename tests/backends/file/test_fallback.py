"""The plainer engine, forced on a system that could do better."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from locknut.backends.file import file_layout, flock, open_engine
from locknut.backends.file.flock import FlockFile
from locknut.backends.file.flock_engine import FlockBackend, FlockEngine
from locknut.backends.file.folder import Folder
from locknut.core.values import Busy, Capability, Claim, Granted, Renewal
from locknut.errors import BackendError, Unsupported
from locknut.runtimes.threads import ThreadRuntime
from tests.backends.file.driving import (
    Place,
    attempt,
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
def engine(directory: Path, monkeypatch: pytest.MonkeyPatch) -> FlockEngine:
    monkeypatch.setattr("locknut.backends.file.ofd_locks.works", lambda _: False)
    made = open_engine(Place(str(directory)))
    assert isinstance(made, FlockEngine)
    return made


@pytest.fixture
def backend(engine: FlockEngine) -> FlockBackend:
    return engine.blocking(ThreadRuntime())


def test_it_promises_less(backend: FlockBackend) -> None:
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
    for command in (
        backend.downgrade(held),
        backend.detach(held, 1.0),
        backend.attach(held, claim()),
    ):
        with pytest.raises(Unsupported):
            run(command)


def test_one_holds_at_a_time_with_growing_numbers(backend: FlockBackend) -> None:
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
    run(backend.close())
    assert open_descriptors() <= before


def test_readers_share(backend: FlockBackend) -> None:
    one, two = reader(), reader()
    assert take(backend, one) != take(backend, two)
    assert busy(backend, claim())
    release(backend, one)
    assert busy(backend, claim())
    release(backend, two)
    take(backend, claim())
    assert busy(backend, reader())


def test_a_broken_hold_is_told(backend: FlockBackend) -> None:
    held, label = claim(label="nightly"), "nightly"
    raw = take(backend, held)
    assert run(backend.inspect())[0].holders[0].label == label
    assert run(backend.break_hold("ns:a", raw + 1)) is None
    assert run(backend.break_hold("ns:a", raw))
    assert take(backend, claim()) > raw
    assert run(backend.renew([held])) == [Renewal.LOST]
    assert not release(backend, held)


def _once(patch: pytest.MonkeyPatch, owner: object, name: str, before: object) -> None:
    """Have something happen just before the next call of this function."""
    real = getattr(owner, name)

    def first(*arguments: object, **named: object) -> object:
        patch.setattr(owner, name, real)
        before()  # type: ignore[operator]
        return real(*arguments, **named)

    patch.setattr(owner, name, first)


def _another(directory: Path) -> FlockBackend:
    made = open_engine(Place(str(directory)))
    assert isinstance(made, FlockEngine)
    return made.blocking(ThreadRuntime())


def test_a_file_is_removed_only_by_one_who_is_alone(
    backend: FlockBackend, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One who finds a grave looks whether the path still leads there, and is held up: meanwhile
    somebody else removes that file, and a new one is held.
    """
    late, other, broken, holder = _another(directory), _another(directory), claim(), claim()
    raw = take(backend, broken)
    path = next(directory.glob("*.flock"))
    with path.open("r+b") as file:
        file.seek(file_layout.GRAVE)
        file.write(file_layout.grave(raw))  # by one who was killed before it took the name away
    _once(monkeypatch, Folder, "replace", lambda: attempt(other, holder))
    assert isinstance(run(late.attempt(claim(), 0.0)), (Busy, Granted))
    inside = [one for one in (other, late) for claimed in one._engine.holds if claimed]
    assert len(inside) == 1
    assert run(backend.renew([broken])) != [Renewal.HELD]


def test_a_grant_that_is_written_into_a_broken_file_does_not_count(
    backend: FlockBackend, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    breaker, former, third = _another(directory), claim(), claim()
    raw = take(backend, former)
    release(backend, former)

    def break_and_take() -> None:
        assert run(breaker.break_hold("ns:a", raw))
        take(breaker, third)

    _once(monkeypatch, FlockFile, "write_grant", break_and_take)
    assert busy(backend, claim())
    assert run(breaker.renew([third])) == [Renewal.HELD]


def test_a_break_that_meets_a_successor_breaks_nothing(
    backend: FlockBackend, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    breaker, target, successor = _another(directory), claim(), claim()
    raw = take(backend, target)

    def change_hands() -> None:
        assert release(backend, target)
        take(backend, successor)

    _once(monkeypatch, file_layout, "grave", change_hands)
    assert run(breaker.break_hold("ns:a", raw)) is None
    assert run(backend.renew([successor])) == [Renewal.HELD]
    assert release(backend, successor)


@pytest.mark.parametrize("make", [claim, reader])
def test_an_attempt_that_fails_after_the_lock_lets_go(
    backend: FlockBackend, monkeypatch: pytest.MonkeyPatch, make: Callable[[], Claim]
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    before = open_descriptors()
    with monkeypatch.context() as patch:
        patch.setattr(flock, "write_at", full)
        with pytest.raises(BackendError, match="No space left"):
            take(backend, make())
    run(backend.close())
    assert open_descriptors() <= before
    take(backend, claim())


def test_the_count_never_overtakes_the_clock(
    backend: FlockBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    moments = itertools.count(time.time_ns(), 100)
    monkeypatch.setattr(time, "time_ns", lambda: next(moments))
    for _ in range(200):
        held = claim()
        assert take(backend, held) <= time.time_ns() // file_layout.RAW_STEP
        release(backend, held)


def test_one_bad_file_does_not_keep_the_others_from_being_listed(
    backend: FlockBackend, directory: Path
) -> None:
    take(backend, claim())
    (directory / "bad.flock").mkdir()
    assert [info.name for info in run(backend.inspect())] == ["ns:a"]
    (directory / "ns=b.flock").mkdir()
    with pytest.raises(BackendError):
        run(backend.inspect("ns:b"))


def test_unused_files_are_removed_and_held_ones_stay(engine: FlockEngine) -> None:
    backend, held, free = engine.blocking(ThreadRuntime()), claim("ns:a"), claim("ns:b")
    take(backend, held)
    raw = take(backend, free)
    release(backend, free)
    assert engine.clean(unused_for=0.0) == 1
    assert run(backend.renew([held])) == [Renewal.HELD]
    assert take(backend, claim("ns:b")) > raw
    assert run(backend.inspect("ns:none")) == []


def test_a_forked_child_closes_and_never_unlocks(backend: FlockBackend) -> None:
    held = claim()
    take(backend, held)
    pid = os.fork()
    if pid == 0:
        release(backend, held)
        os._exit(0)
    os.waitpid(pid, 0)
    assert busy(backend, claim())


def test_a_foreign_file_is_never_written_over(engine: FlockEngine) -> None:
    path = Path(engine.files.folder.path("ns=a.flock"))
    path.write_text("my diary")
    with pytest.raises(BackendError, match="does not begin like a lock file"):
        run(engine.blocking(ThreadRuntime()).attempt(claim(), 0.0))
    assert path.read_text() == "my diary"


def test_the_engine_imports_where_there_is_no_fcntl() -> None:
    """As on Windows: only when a lock is taken must the system have locks at all."""
    program = "import sys; sys.modules['fcntl'] = None; import locknut.backends.file"
    subprocess.run([sys.executable, "-c", program], check=True, env=dict(os.environ))
