"""Readers, permits and co-owners: who may be in together, in which order, and whose death frees."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path

import pytest

from locknut.backends.file import file_layout, holder_slots, ofd_locks, this_process
from locknut.backends.file.backend import FileBackend
from locknut.core.values import Claim, Mode
from locknut.errors import Unsupported
from locknut.runtimes.threads import ThreadRuntime
from tests.backends.file.driving import (
    Child,
    acquire,
    busy,
    claim,
    engine_in,
    permit,
    reader,
    release,
    run,
    take,
)

Start = Callable[[], Child]
NEVER = 3600.0


@pytest.fixture
def no_net(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody in this process wakes by himself: a lost ring is a hang."""
    monkeypatch.setattr("locknut.backends.file.line._FIRST", (NEVER,) * 3)
    monkeypatch.setattr("locknut.backends.file.line._LONGEST", (NEVER,) * 3)


# -- readers


def test_readers_share_and_writers_do_not(backend: FileBackend) -> None:
    one, two, writer = reader(), reader(), claim()
    assert take(backend, one) != take(backend, two)
    assert busy(backend, writer)
    release(backend, one)
    assert busy(backend, writer)
    release(backend, two)
    take(backend, writer)
    assert busy(backend, reader())


def test_a_waiting_writer_is_not_starved_by_readers(backend: FileBackend) -> None:
    inside, writer, late = reader(), claim(), reader()
    take(backend, inside)
    assert busy(backend, writer)
    assert busy(backend, writer)
    assert busy(backend, late)
    release(backend, inside)
    assert busy(backend, late)
    take(backend, writer)
    release(backend, writer)
    take(backend, late)


def test_a_release_lets_all_readers_in_up_to_the_next_writer(
    backend: FileBackend, child: Start
) -> None:
    held, readers, writer, behind = claim(), [child() for _ in range(3)], child(), child()
    take(backend, held)
    for one in readers:
        one.wait_in_line(mode="shared")
    writer.wait_in_line()
    behind.wait_in_line(mode="shared")
    release(backend, held)
    assert all(one.hear() for one in readers)
    assert writer.silent()
    assert behind.silent()
    for one in readers:
        assert one.ask("release")
    assert writer.hear()
    assert behind.silent()
    assert writer.ask("release")
    assert behind.hear()


def test_a_withdrawn_writer_lets_the_readers_behind_it_in(
    backend: FileBackend, child: Start
) -> None:
    inside, writer, behind = reader(), claim(), child()
    take(backend, inside)
    assert busy(backend, writer)
    assert busy(backend, writer)
    behind.wait_in_line(mode="shared")
    release(backend, writer)
    assert behind.hear()


def test_the_death_of_the_last_reader_lets_the_writer_in(
    backend: FileBackend, child: Start, no_net: None
) -> None:
    first, second, writer = child(), child(), claim()
    first.ask("attempt", mode="shared")
    second.ask("attempt", mode="shared")
    first.kill()
    assert run(acquire(backend, writer, on_wait=second.kill))


def test_downgrade_keeps_the_number_and_lets_readers_in(backend: FileBackend, child: Start) -> None:
    held, other = claim(), child()
    raw = take(backend, held)
    other.wait_in_line(mode="shared")
    assert run(backend.downgrade(held))
    assert other.hear() > raw
    now_shared = held._replace(mode=Mode.SHARED)
    assert run(backend.downgrade(now_shared))
    assert take(backend, now_shared) == raw
    assert busy(backend, claim())
    assert other.ask("release")
    assert release(backend, now_shared)
    take(backend, claim())


def test_downgrade_lets_no_writer_in(backend: FileBackend) -> None:
    held, writer, behind = claim(), claim(), reader()
    take(backend, held)
    for waiting in (writer, behind):
        assert busy(backend, waiting)
        assert busy(backend, waiting)
    assert run(backend.downgrade(held))
    assert busy(backend, writer)
    assert busy(backend, behind)
    release(backend, held)
    take(backend, writer)


def test_downgrade_needs_a_hold(backend: FileBackend) -> None:
    assert not run(backend.downgrade(claim()))
    owned = claim(owner="x")
    take(backend, owned)
    with pytest.raises(Unsupported):
        run(backend.downgrade(owned))


def test_more_readers_than_are_listed(backend: FileBackend) -> None:
    readers = [reader() for _ in range(300)]
    assert len({take(backend, one) for one in readers}) == 300
    assert busy(backend, claim())
    for one in readers:
        assert release(backend, one)
    take(backend, claim())


# -- permits


def test_as_many_as_there_are_permits(backend: FileBackend) -> None:
    held = [permit(3) for _ in range(3)]
    raws = [take(backend, one) for one in held]
    assert len(set(raws)) == 3
    assert busy(backend, permit(3))
    release(backend, held[1])
    assert take(backend, permit(3)) > max(raws)


def test_each_claim_is_judged_by_its_own_limit(backend: FileBackend) -> None:
    held = [permit(5) for _ in range(5)]
    for one in held:
        take(backend, one)
    release(backend, held[0])
    assert busy(backend, permit(3))
    assert busy(backend, permit(4))
    take(backend, permit(5))
    release(backend, held[1])
    release(backend, held[2])
    assert busy(backend, permit(3))
    release(backend, held[3])
    take(backend, permit(3))
    assert busy(backend, permit(3))
    take(backend, permit(6))


def test_a_lock_and_a_semaphore_of_one_name_do_not_meet(backend: FileBackend) -> None:
    take(backend, claim())
    take(backend, permit(1))


def test_a_killed_holder_gives_its_permit_back(
    backend: FileBackend, child: Start, no_net: None
) -> None:
    holders, wanted = [child(), child()], permit(2)
    for one in holders:
        assert one.ask("attempt", mode="permit", permits=2)
    assert run(acquire(backend, wanted, on_wait=holders[0].kill))


def test_waiters_for_permits_go_in_order(backend: FileBackend, child: Start) -> None:
    held, others = [permit(2), permit(2)], [child() for _ in range(3)]
    for one in held:
        take(backend, one)
    for other in others:
        other.wait_in_line(mode="permit", permits=2)
    release(backend, held[0])
    first = others[0].hear()
    assert others[1].silent()
    assert others[2].silent()
    release(backend, held[1])
    assert others[1].hear() > first
    assert others[2].silent()
    others[1].ask("release")
    assert others[2].hear()


# -- several as one owner


def test_co_owners_hold_together_and_alone(directory: Path, child: Start) -> None:
    backend, other = engine_in(directory).blocking(ThreadRuntime()), child()
    mine = claim(owner="order-7")
    raw = take(backend, mine)
    assert other.ask("attempt", owner="order-7") == raw
    for stranger in (claim(), reader(), claim(owner="order-8")):
        assert busy(backend, stranger)
    assert release(backend, mine)
    assert busy(backend, claim())
    again = claim(owner="order-7")
    assert take(backend, again) == raw
    other.kill()
    assert release(backend, again)
    assert take(backend, claim(owner="order-7")) > raw


@pytest.mark.parametrize("holder", [claim(), reader(), claim(owner="order-8")])
def test_an_owner_waits_for_others(backend: FileBackend, holder: Claim) -> None:
    wanted = claim(owner="order-7")
    take(backend, holder)
    assert busy(backend, wanted)
    assert busy(backend, wanted)
    release(backend, holder)
    take(backend, wanted)


def test_a_co_owner_joins_past_those_who_wait(backend: FileBackend) -> None:
    first, stranger, second = claim(owner="o"), claim(), claim(owner="o", fair=True)
    raw = take(backend, first)
    assert busy(backend, stranger)
    assert busy(backend, stranger)
    assert take(backend, second) == raw


def test_an_owner_takes_its_turn_in_the_line(backend: FileBackend, child: Start) -> None:
    held, first, second = claim(), child(), child()
    take(backend, held)
    first.wait_in_line()
    second.wait_in_line(owner="o")
    release(backend, held)
    assert first.hear()
    assert second.silent()
    first.ask("release")
    assert second.hear()


def test_the_last_co_owner_wakes_who_waits(backend: FileBackend, child: Start) -> None:
    one, two, other = claim(owner="o"), claim(owner="o"), child()
    take(backend, one)
    take(backend, two)
    other.wait_in_line()
    release(backend, one)
    assert other.silent()
    release(backend, two)
    assert other.hear()


def test_meta_is_not_taken_from_who_has_the_descriptor_next(backend: FileBackend) -> None:
    """Ctrl-C at its end leaves it to whoever drops everything; not to the collector, later."""
    file, other = (backend._recipe.files.open("ns:a", Mode.PERMIT) for _ in range(2))
    interrupted = holder_slots.SlotsMutex(file.fd)
    interrupted.__enter__()
    ofd_locks.drop_all(file.fd)
    with holder_slots.SlotsMutex(file.fd):
        del interrupted
        gc.collect()
        assert not ofd_locks.take(other.fd, ofd_locks.WRITE, file_layout.META, 1)
    for each in (file, other):
        this_process.close_fd(each.fd)


@pytest.mark.parametrize("verb", ["downgrade", "detach"])
def test_an_interrupted_holder_that_holds_on_keeps_nobody_from_meta(
    backend: FileBackend, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    held = claim("ns:a")
    take(backend, held)
    with monkeypatch.context() as patched:
        patched.setattr(holder_slots.SlotsMutex, "__exit__", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run(backend.downgrade(held) if verb == "downgrade" else backend.detach(held, 5.0))
    other = backend._recipe.files.open("ns:a", Mode.EXCLUSIVE)
    assert ofd_locks.take(other.fd, ofd_locks.WRITE, file_layout.META, 1)
    this_process.close_fd(other.fd)
    release(backend, held)
