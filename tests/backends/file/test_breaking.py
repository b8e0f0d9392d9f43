"""A hold that is ended by force: nobody is let in beside another, and only who lost is told so."""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from locknut.backends.file import burial, file_layout, holder_slots
from locknut.backends.file.backend import FileBackend
from locknut.backends.file.lock_files import LockFile
from locknut.core.values import Claim, Renewal
from locknut.runtimes.threads import ThreadRuntime
from tests.backends.file.driving import (
    acquire,
    attempt,
    busy,
    claim,
    engine_in,
    granted,
    permit,
    program,
    reader,
    release,
    run,
    take,
)


def _once(patch: pytest.MonkeyPatch, owner: Any, name: str, before: Callable[[], object]) -> None:
    """Have something happen just before the next call of this function."""
    real = getattr(owner, name)

    def first(*arguments: Any, **named: Any) -> Any:
        patch.setattr(owner, name, real)
        before()
        return real(*arguments, **named)

    patch.setattr(owner, name, first)


def _after_grave(patch: pytest.MonkeyPatch, happens: Callable[[], object]) -> None:
    """Have something happen when the grave was written and the record is looked at once more."""

    def in_between() -> None:
        _once(patch, LockFile, "glance", happens)

    _once(patch, file_layout, "grave", in_between)


def test_a_grant_that_is_written_into_a_broken_file_does_not_count(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A newcomer has the kernel's lock and is stopped before its record is written: everybody sees
    the former holder, whose hold is broken, and somebody gets the new file.
    """
    slow, breaker = (
        engine_in(directory).blocking(ThreadRuntime()),
        engine_in(directory).blocking(ThreadRuntime()),
    )
    former, newcomer, third = claim(), claim(), claim()
    raw = take(slow, former)
    release(slow, former)

    def break_and_take() -> None:
        assert run(breaker.break_hold("ns:a", raw))
        take(breaker, third)

    _once(monkeypatch, LockFile, "write_plain", break_and_take)
    assert busy(slow, newcomer)
    assert run(breaker.renew([third])) == [Renewal.HELD]
    assert release(breaker, third)
    take(slow, newcomer)


def test_a_break_that_meets_a_successor_breaks_nothing(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look and the grave the holder leaves and another one comes in."""
    backend, breaker = (
        engine_in(directory).blocking(ThreadRuntime()),
        engine_in(directory).blocking(ThreadRuntime()),
    )
    target, successor = claim(), claim()
    raw = take(backend, target)
    told: list[object] = []

    def change_hands() -> None:
        told.append(release(backend, target))
        take(backend, successor)

    def look_while_buried() -> None:
        told.extend(run(backend.renew([successor])))

    _once(monkeypatch, file_layout, "grave", change_hands)
    _once(monkeypatch, burial, "_call_off", look_while_buried)
    assert run(breaker.break_hold("ns:a", raw)) is None
    assert told == [True, Renewal.HELD]
    assert run(backend.renew([successor])) == [Renewal.HELD]
    assert busy(breaker, claim())
    assert release(backend, successor)


def test_a_holder_that_is_told_was_broken(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The holder leaves when the grave is there and the breaker has not looked again: it is told of
    a loss, so the breaker must not say that nothing was broken.
    """
    backend, breaker = (
        engine_in(directory).blocking(ThreadRuntime()),
        engine_in(directory).blocking(ThreadRuntime()),
    )
    target, told = claim(), []
    raw = take(backend, target)
    _after_grave(monkeypatch, lambda: told.append(release(backend, target)))
    broken = run(breaker.break_hold("ns:a", raw))
    assert told == [False]
    assert broken is not None
    assert [holder.raw for holder in broken.holders] == [raw]


@pytest.mark.parametrize("make", [claim, lambda: claim(owner="o"), reader])
def test_without_a_fence_whoever_holds_is_put_out(
    directory: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[], Claim]
) -> None:
    """Also a successor who comes in while the break looks."""
    backend, breaker = (
        engine_in(directory).blocking(ThreadRuntime()),
        engine_in(directory).blocking(ThreadRuntime()),
    )
    target, successor = make(), claim()
    take(backend, target)

    def change_hands() -> None:
        release(backend, target)
        take(backend, successor)

    _once(monkeypatch, file_layout, "grave", change_hands)
    assert run(breaker.break_hold("ns:a", None))
    assert run(backend.renew([successor])) == [Renewal.LOST]
    take(breaker, claim())


def test_a_break_that_was_killed_spares_the_successor(
    backend: FileBackend, directory: Path
) -> None:
    """The grave of a former hold was left behind beside a holder who came in before it was dug."""
    held = claim()
    raw = take(backend, held)
    path = next(directory.glob("*.lock"))
    with path.open("r+b") as file:
        file.seek(file_layout.GRAVE)
        file.write(file_layout.grave(raw - 1))
    assert run(backend.renew([held])) == [Renewal.HELD]
    assert busy(engine_in(directory).blocking(ThreadRuntime()), claim())
    assert run(backend.renew([held])) == [Renewal.HELD]
    assert release(backend, held)
    take(backend, claim())


def test_a_permit_can_be_broken_though_an_earlier_break_was_killed(
    backend: FileBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between its two writes: the permit was marked as broken, counted all the same, and no later
    break saw anybody there.
    """
    held, written = permit(1), itertools.count(1)
    raw = take(backend, held)
    real = os.pwrite

    def killed(fd: int, data: bytes, offset: int) -> int:
        if next(written) == 2:
            raise SystemExit
        return real(fd, data, offset)

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", killed)
        with pytest.raises(SystemExit):
            run(backend.break_hold("ns:a", raw))
    assert run(backend.break_hold("ns:a", raw))
    assert run(backend.renew([held])) == [Renewal.LOST]
    take(backend, permit(1))


@pytest.mark.parametrize("verb", ["downgrade", "detach"])
def test_a_hold_that_is_broken_while_it_changes_is_lost(
    directory: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    backend, breaker = (
        engine_in(directory).blocking(ThreadRuntime()),
        engine_in(directory).blocking(ThreadRuntime()),
    )
    held = claim()
    raw = take(backend, held)
    _once(monkeypatch, holder_slots, "SlotsMutex", lambda: run(breaker.break_hold("ns:a", raw)))
    change = backend.downgrade(held) if verb == "downgrade" else backend.detach(held, 60.0)
    assert run(change) is False
    assert run(backend.renew([held])) == [Renewal.LOST]
    assert not release(backend, held)
    take(breaker, claim())


@pytest.mark.parametrize("make", [claim, reader, lambda: claim(owner="o")])
@pytest.mark.parametrize("gone_by", ["break", "clean", "rm"])
def test_a_detached_hold_is_found_in_the_file_that_counts(
    directory: Path, make: Callable[[], Claim], gone_by: str
) -> None:
    """Who attaches it still has a former file of that name open."""
    first, engine = engine_in(directory).blocking(ThreadRuntime()), engine_in(directory)
    before, detached = claim(), make()
    take(first, before)
    release(first, before)
    second = engine.blocking(ThreadRuntime())
    if gone_by == "break":
        take(second, other := claim())
        assert run(second.break_hold("ns:a", None))
        release(second, other)
    elif gone_by == "clean":
        assert engine.clean(unused_for=0.0) == 1
    else:
        next(directory.glob("*.lock")).unlink()
    raw = take(second, detached)
    assert run(second.detach(detached, 60.0))
    assert granted(run(first.attach(detached, claim()))) == raw
    assert busy(second, claim())


# -- numbers


def _clock(patch: pytest.MonkeyPatch, ahead: int) -> None:
    real = time.time_ns
    patch.setattr(time, "time_ns", lambda: real() + ahead)


@pytest.mark.parametrize("make", [claim, reader, lambda: claim(owner="o")])
def test_the_number_is_carried_over_a_break(
    directory: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[], Claim]
) -> None:
    """Also where the clock was set back, so that it says nothing."""
    backend, breaker = (
        engine_in(directory).blocking(ThreadRuntime()),
        engine_in(directory).blocking(ThreadRuntime()),
    )
    with monkeypatch.context() as patch:
        _clock(patch, 10**15)
        raw = take(backend, make())
    assert run(breaker.break_hold("ns:a", raw))
    assert take(breaker, claim()) == raw + 1
    assert not list(directory.glob("*.new"))


def test_the_number_is_carried_over_a_break_that_was_killed(
    backend: FileBackend, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        _clock(patch, 10**15)
        held = claim()
        raw = take(backend, held)
        release(backend, held)
    path = next(directory.glob("*.lock"))
    with path.open("r+b") as file:
        file.seek(file_layout.GRAVE)
        file.write(file_layout.grave(raw))
    (directory / "ns=a.lock.new").write_bytes(b"half a draft")
    assert take(backend, claim()) == raw + 1
    assert not list(directory.glob("*.new"))


@pytest.mark.parametrize("make", [claim, lambda: claim(owner="o"), lambda: permit(1), reader])
def test_the_count_never_overtakes_the_clock(
    backend: FileBackend,
    directory: Path,
    monkeypatch: pytest.MonkeyPatch,
    make: Callable[[], Claim],
) -> None:
    """A file that is removed takes the count along: the next one begins at the clock. The machine
    is so fast here that many grants fit into one step of the number.
    """
    moments = itertools.count(time.time_ns(), 100)
    monkeypatch.setattr(time, "time_ns", lambda: next(moments))
    raw = 0
    for _ in range(500):
        held = make()
        last, raw = raw, take(backend, held)
        assert last < raw <= time.time_ns() // file_layout.RAW_STEP
        release(backend, held)
    next(directory.iterdir()).unlink()
    assert take(engine_in(directory).blocking(ThreadRuntime()), make()) > raw


def test_a_clock_that_stands_still_keeps_nobody_waiting(
    backend: FileBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, raws = time.time_ns(), []
    monkeypatch.setattr(time, "time_ns", lambda: now)
    for _ in range(3):
        held = claim()
        raws.append(take(backend, held))
        release(backend, held)
    assert raws == sorted(set(raws))


@pytest.mark.root
def test_a_new_file_belongs_to_the_owner_of_the_old_one(
    backend: FileBackend, directory: Path
) -> None:
    """Root breaks a user's lock: the user must be able to go on."""
    held = claim()
    take(backend, held)
    path = next(directory.glob("*.lock"))
    os.chown(path, 1001, 1002)
    path.chmod(0o640)
    inode = path.stat().st_ino
    assert run(backend.break_hold("ns:a", None))
    about = path.stat()
    assert about.st_ino != inode
    assert (about.st_uid, about.st_gid, about.st_mode & 0o777) == (1001, 1002, 0o640)


def test_a_break_needs_no_room_on_the_disk(
    backend: FileBackend, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = claim()
    raw = take(backend, held)

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    assert run(backend.break_hold("ns:a", raw))
    assert list(directory.iterdir()) == []
    assert take(backend, claim()) > raw


# -- many at once


@pytest.mark.slow
def test_breaks_beside_grants_let_nobody_in_unseen(directory: Path, tmp_path: Path) -> None:
    """Processes are stopped anywhere while others break their holds: nobody who was overtaken is
    left in the belief that it held, and nobody is told of a loss that did not happen.
    """
    racers = [program("breaker", directory, tmp_path / "entered") for _ in range(4)]
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == b"ready\n"
    until = time.monotonic() + 3.0
    while time.monotonic() < until:
        racer = random.choice(racers)
        racer.send_signal(signal.SIGSTOP)
        time.sleep(random.random() / 100)  # the rhythm of the stops, not a wait for anything
        racer.send_signal(signal.SIGCONT)
    for racer in racers:
        racer.terminate()
    said = [json.loads(racer.communicate(timeout=60)[0]) for racer in racers]
    assert [racer.returncode for racer in racers] == [0] * 4
    assert sum(one["grants"] for one in said) > 100
    broken = {raw for one in said for raw in one["broken"]}
    assert len(broken) > 10
    assert {raw for one in said for raw in one["told"]} <= broken


def test_a_waiter_moves_to_the_new_file(directory: Path) -> None:
    backend, other = (
        engine_in(directory).blocking(ThreadRuntime()),
        engine_in(directory).blocking(ThreadRuntime()),
    )
    held, wanted = claim(), claim()
    raw = take(backend, held)
    assert busy(other, wanted)
    assert run(backend.break_hold("ns:a", raw))
    assert granted(attempt(other, wanted)) > raw
    assert not release(backend, held)
    assert run(acquire(backend, claim(), 0.0)) is None
