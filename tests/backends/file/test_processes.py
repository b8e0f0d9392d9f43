"""Several processes: order, death, forks, stops; what the kernel keeps and what wakes whom."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from locknut.backends.file.backend import FileBackend
from locknut.core.values import Busy
from tests.backends.file.driving import Child, acquire, busy, claim, release, run, take

Start = Callable[[], Child]
COLOURS = pytest.mark.parametrize("acquiring", ["acquire", "acquire_async"])


@COLOURS
def test_a_release_wakes_the_waiter(backend: FileBackend, child: Start, acquiring: str) -> None:
    held, other = claim(), child()
    raw = take(backend, held)
    assert other.ask(acquiring) == "waiting"
    assert other.silent()
    release(backend, held)
    assert other.hear() > raw


@pytest.mark.parametrize("fair", [False, True])
def test_waiters_of_several_processes_go_in_order(
    backend: FileBackend, child: Start, fair: bool
) -> None:
    held, others = claim(), [child() for _ in range(4)]
    take(backend, held)
    for other in others:
        other.wait_in_line(fair=fair)
    release(backend, held)
    raws = []
    for at, other in enumerate(others):
        raws.append(other.hear())
        assert all(later.silent() for later in others[at + 1 :])
        assert other.ask("release")
    assert raws == sorted(set(raws))


def test_a_fair_newcomer_goes_behind_those_who_wait(backend: FileBackend, child: Start) -> None:
    held, other, newcomer = claim(), child(), claim(fair=True)
    take(backend, held)
    other.wait_in_line()
    os.kill(other.pid, signal.SIGSTOP)
    release(backend, held)
    assert busy(backend, newcomer)
    os.kill(other.pid, signal.SIGCONT)
    assert other.hear()
    assert other.ask("release")
    assert run(acquire(backend, newcomer))


@COLOURS
def test_a_killed_holder_frees_at_once(child: Start, acquiring: str) -> None:
    holder, other = child(), child()
    raw = holder.ask("attempt")
    assert other.ask(acquiring) == "waiting"
    holder.kill()
    assert other.hear() > raw


def test_the_end_of_the_holder_rings_without_the_net(
    backend: FileBackend, child: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a net of an hour, only the pidfd can end this wait."""
    monkeypatch.setattr("locknut.backends.file.line._FIRST", (3600.0,) * 3)
    holder, wanted = child(), claim()
    holder.ask("attempt")
    assert run(acquire(backend, wanted, on_wait=holder.kill))


def test_a_release_rings_without_the_net(
    backend: FileBackend, child: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("locknut.backends.file.line._FIRST", (3600.0,) * 3)
    holder, wanted = child(), claim()
    holder.ask("attempt")
    assert run(acquire(backend, wanted, on_wait=lambda: holder.send("release")))


def test_a_killed_waiter_leaves_no_ghost(backend: FileBackend, child: Start) -> None:
    held, first, second = claim(), child(), child()
    take(backend, held)
    first.wait_in_line()
    second.wait_in_line()
    first.kill()
    assert len(run(backend.inspect("ns:a"))[0].waiters) == 1
    release(backend, held)
    assert second.hear()


def test_a_waiter_killed_after_its_ring_is_covered_by_the_net(
    backend: FileBackend, child: Start
) -> None:
    held, first, second = claim(), child(), child()
    take(backend, held)
    first.wait_in_line()
    second.wait_in_line()
    os.kill(first.pid, signal.SIGSTOP)
    release(backend, held)
    first.kill()
    assert second.hear()


def test_a_timed_out_waiter_passes_its_ring_on(backend: FileBackend, child: Start) -> None:
    held, first, second = claim(), child(), child()
    take(backend, held)
    first.wait_in_line(timeout=0.05)
    second.wait_in_line()
    assert first.hear() is None
    assert second.silent()
    release(backend, held)
    assert second.hear()


def test_a_forked_child_does_not_keep_the_lock_of_a_killed_parent(
    backend: FileBackend, child: Start
) -> None:
    holder, wanted = child(), claim()
    holder.ask("attempt")
    grandchild = holder.ask("fork")
    try:
        holder.kill()
        assert run(acquire(backend, wanted))
    finally:
        os.kill(grandchild, signal.SIGKILL)


def test_a_release_in_a_forked_child_does_not_free_the_parents_lock(
    backend: FileBackend, child: Start
) -> None:
    holder = child()
    holder.ask("attempt")
    grandchild = holder.ask("fork", release=True)
    try:
        assert busy(backend, claim())
        assert holder.ask("renew") == "held"
    finally:
        os.kill(grandchild, signal.SIGKILL)


def test_a_forked_child_starts_afresh(backend: FileBackend, directory: Path) -> None:
    held, other = claim(), claim("ns:b")
    take(backend, held)
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            mine_is_busy = busy(backend, claim())
            inert = not release(backend, held)
            other_works = take(backend, other) > 0
            os.write(writer, bytes([mine_is_busy, inert, other_works]))
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    assert os.read(reader, 3) == bytes([1, 1, 1])
    os.close(reader)
    os.close(writer)
    assert release(backend, held)
    take(backend, other)


def test_a_stopped_holder_keeps_its_lock(backend: FileBackend, child: Start) -> None:
    holder = child()
    holder.ask("attempt")
    os.kill(holder.pid, signal.SIGSTOP)
    assert isinstance(run(backend.attempt(claim(), 0.0)), Busy)
    os.kill(holder.pid, signal.SIGCONT)
    assert holder.ask("release")


def test_a_program_started_by_the_holder_inherits_nothing(backend: FileBackend) -> None:
    held, wanted = claim(), claim()
    take(backend, held)
    pipe = subprocess.PIPE
    with subprocess.Popen(["cat"], stdin=pipe, stdout=pipe, close_fds=False) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        program.stdin.write(b"awake?\n")
        program.stdin.flush()
        program.stdout.readline()  # while it starts, it opens libraries and closes them again
        links = [
            os.readlink(f"/proc/{program.pid}/fd/{fd}")
            for fd in os.listdir(f"/proc/{program.pid}/fd")
        ]
        assert not [link for link in links if link.endswith(".lock")]
        release(backend, held)
        take(backend, wanted)
        program.kill()


def test_those_behind_a_stopped_waiter_wait_for_it(backend: FileBackend, child: Start) -> None:
    """The order is the kernel's; a newcomer that is not fair may take what is free."""
    held, newcomer = claim(), claim()
    take(backend, held)
    first, second = child(), child()
    first.wait_in_line()
    second.wait_in_line()
    os.kill(first.pid, signal.SIGSTOP)
    release(backend, held)
    take(backend, newcomer)
    release(backend, newcomer)
    assert isinstance(run(backend.attempt(claim(fair=True), 0.0)), Busy)
    assert second.silent()
    os.kill(first.pid, signal.SIGCONT)
    raw = first.hear()
    assert first.ask("release")
    assert second.hear() > raw


def test_a_waiter_that_cannot_be_rung_comes_by_itself(
    backend: FileBackend, child: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in another network and pid namespace: no bell is heard there, no pid means anything."""
    elsewhere = backend._recipe.me._replace(pid_space=1)
    monkeypatch.setattr(backend._recipe, "me", elsewhere)
    monkeypatch.setattr(backend._recipe.ringer, "ring", lambda _: None)
    held, other = claim(), child()
    take(backend, held)
    other.wait_in_line()
    release(backend, held)
    assert other.hear()


def test_the_number_survives_the_death_of_the_holder(backend: FileBackend, child: Start) -> None:
    holder = child()
    raw = holder.ask("attempt")
    holder.kill()
    assert take(backend, claim()) > raw
