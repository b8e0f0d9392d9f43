"""Detached and attached holds, holds ended by force, and what others may see."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from locknut.backends.file import holder_slots, holds, line
from locknut.backends.file.backend import FileBackend
from locknut.core.values import Busy, Claim, Mode, Renewal
from locknut.errors import Unsupported
from locknut.runtimes.threads import ThreadRuntime
from tests.backends.file.driving import (
    Child,
    acquire,
    attempt,
    busy,
    claim,
    engine_in,
    granted,
    permit,
    reader,
    release,
    run,
    signal,
    take,
)

Start = Callable[[], Child]


# -- detach and attach


@pytest.mark.parametrize("make", [claim, reader, lambda: permit(1), lambda: claim(owner="o")])
def test_a_detached_hold_lives_on_until_it_is_attached(
    directory: Path, make: Callable[[], Claim]
) -> None:
    web, worker = (
        engine_in(directory).blocking(ThreadRuntime()),
        engine_in(directory).blocking(ThreadRuntime()),
    )
    held, stranger = make(), permit(1) if make().mode is Mode.PERMIT else claim()
    raw = take(web, held)
    assert run(web.detach(held, 60.0))
    assert not run(web.detach(held, 60.0))
    assert run(web.renew([held])) == [Renewal.LOST]
    assert not release(web, held)
    assert busy(web, stranger)
    assert busy(worker, stranger._replace(id="other"))
    attacher = make()
    assert granted(run(worker.attach(held, attacher))) == raw
    assert granted(run(worker.attach(held, attacher))) == raw
    assert run(worker.renew([attacher])) == [Renewal.HELD]
    assert busy(web, stranger)
    assert release(worker, attacher)
    assert take(web, stranger) > raw


def test_only_the_first_of_two_that_attach_succeeds(backend: FileBackend, child: Start) -> None:
    held, workers = claim(), [child(), child()]
    raw = take(backend, held)
    run(backend.detach(held, 60.0))
    for worker in workers:
        worker.send("attach", detached=held.id)
    assert sorted([worker.hear() for worker in workers], key=str) == [raw, None]


def test_the_process_that_detached_may_die(backend: FileBackend, child: Start) -> None:
    web, attacher = child(), claim()
    raw = web.ask("attempt")
    detached = web.ask("detach", ttl=60.0)
    web.kill()
    assert busy(backend, claim())
    assert granted(run(backend.attach(claim()._replace(id=detached), attacher))) == raw


def test_a_detached_hold_runs_out(backend: FileBackend) -> None:
    held, wanted = claim(), claim()
    raw = take(backend, held)
    run(backend.detach(held, 0.05))
    answer = attempt(backend, wanted)
    assert isinstance(answer, Busy)
    assert 0 < answer.retry_in <= 0.05
    later = run(acquire(backend, wanted))
    assert later is not None
    assert later > raw
    assert run(backend.attach(held, claim())) is None


def test_a_detached_hold_of_an_earlier_boot_is_gone(directory: Path) -> None:
    before, after = engine_in(directory), engine_in(directory)
    held = claim()
    take(before.blocking(ThreadRuntime()), held)
    assert run(before.blocking(ThreadRuntime()).detach(held, 3600.0))
    after._recipe.me = after._recipe.me._replace(boot=b"rebooted")
    take(after.blocking(ThreadRuntime()), claim())


def test_waiters_stay_in_line_past_a_detached_hold(backend: FileBackend, child: Start) -> None:
    held, other, attacher = claim(), child(), claim()
    take(backend, held)
    other.wait_in_line()
    run(backend.detach(held, 60.0))
    granted(run(backend.attach(held, attacher)))
    assert other.silent()
    release(backend, attacher)
    assert other.hear()


def test_a_detached_reader_keeps_writers_out_and_lets_readers_in(backend: FileBackend) -> None:
    held, other = reader(), reader()
    take(backend, held)
    run(backend.detach(held, 60.0))
    take(backend, other)
    release(backend, other)
    assert busy(backend, claim())
    assert busy(backend, claim(owner="o"))


def test_a_detached_permit_counts(backend: FileBackend) -> None:
    held, other = permit(2), permit(2)
    take(backend, held)
    take(backend, other)
    run(backend.detach(held, 60.0))
    assert busy(backend, permit(2))
    take(backend, permit(3))
    release(backend, other)
    assert busy(backend, permit(2))


def test_an_attached_hold_is_not_detached_again_by_the_next_one(backend: FileBackend) -> None:
    first, second, attacher = claim(), claim(), claim()
    take(backend, first)
    run(backend.detach(first, 60.0))
    assert run(backend.attach(first, attacher))
    release(backend, attacher)
    take(backend, second)
    backend._recipe.states[second.id].file.hint = 7  # as if readers had the other slots before
    run(backend.detach(second, 60.0))
    assert run(backend.attach(first, claim())) is None
    assert run(backend.attach(second, claim()))


def test_what_is_stored_is_not_the_claim_id(backend: FileBackend, directory: Path) -> None:
    held = claim()._replace(id="5ec2e7" * 5)
    take(backend, held)
    run(backend.detach(held, 60.0))
    assert all(held.id.encode() not in path.read_bytes() for path in directory.iterdir())


def test_an_attach_gets_past_those_who_look_at_the_deadline(
    backend: FileBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A waiter that has the kernel's lock for a moment is not taken for a new holder."""
    held, attacher = claim(), claim()
    take(backend, held)
    run(backend.detach(held, 60.0))
    real, refusals = holds._lock, iter([False, False])
    monkeypatch.setattr(holds, "_lock", lambda *a: next(refusals, True) and real(*a))
    assert run(backend.attach(held, attacher))


def test_detaching_is_refused_across_machines(directory: Path) -> None:
    backend = engine_in(directory, network="allow").blocking(ThreadRuntime())
    held = claim()
    take(backend, held)
    with pytest.raises(Unsupported):
        run(backend.detach(held, 60.0))


# -- break


@pytest.mark.parametrize("make", [claim, reader, lambda: permit(1), lambda: claim(owner="o")])
def test_a_broken_hold_is_free_and_its_holder_is_told(
    directory: Path, make: Callable[[], Claim]
) -> None:
    backend, other = (
        engine_in(directory).blocking(ThreadRuntime()),
        engine_in(directory).blocking(ThreadRuntime()),
    )
    held, wanted = make(), permit(1) if make().mode is Mode.PERMIT else claim()
    raw = take(backend, held)
    broken = run(other.break_hold("ns:a", raw))
    assert broken is not None
    assert [holder.raw for holder in broken.holders] == [raw]
    assert take(other, wanted) > raw
    assert run(backend.renew([held])) == [Renewal.LOST]
    assert not release(backend, held)
    assert run(other.renew([wanted])) == [Renewal.HELD]
    assert busy(backend, permit(1) if wanted.mode is Mode.PERMIT else claim())


def test_a_try_through_an_old_descriptor_finds_a_broken_lock_free(directory: Path) -> None:
    holder, backend = (
        engine_in(directory).blocking(ThreadRuntime()),
        engine_in(directory).blocking(ThreadRuntime()),
    )
    held, passer = claim(), claim()
    take(holder, held)
    assert busy(backend, passer)
    release(backend, passer)
    assert run(holder.break_hold("ns:a", None))
    take(backend, claim())


def test_a_break_meant_for_another_hold_is_refused(backend: FileBackend) -> None:
    held = claim()
    raw = take(backend, held)
    assert run(backend.break_hold("ns:a", raw - 1)) is None
    assert run(backend.renew([held])) == [Renewal.HELD]
    release(backend, held)
    assert run(backend.break_hold("ns:a", None)) is None
    assert run(backend.break_hold("ns:nothing", None)) is None


def test_one_permit_is_broken_and_the_others_stay(backend: FileBackend) -> None:
    held = [permit(3) for _ in range(3)]
    raws = [take(backend, one) for one in held]
    assert run(backend.break_hold("ns:a", raws[1]))
    assert run(backend.renew(held)) == [Renewal.HELD, Renewal.LOST, Renewal.HELD]
    take(backend, permit(3))
    assert busy(backend, permit(3))
    assert not release(backend, held[1])
    assert busy(backend, permit(3))
    release(backend, held[0])
    take(backend, permit(3))
    assert busy(backend, permit(3))


def test_a_break_wakes_those_who_wait_in_order(backend: FileBackend, child: Start) -> None:
    held, others = claim(), [child(), child()]
    take(backend, held)
    for other in others:
        other.wait_in_line()
    assert run(backend.break_hold("ns:a", None))
    heard = others[0].hear()
    assert others[1].silent()
    assert not release(backend, held)
    assert others[0].ask("renew") == "held"
    others[0].ask("release")
    assert others[1].hear() > heard


def test_a_detached_hold_can_be_broken(backend: FileBackend) -> None:
    held = claim()
    raw = take(backend, held)
    run(backend.detach(held, 60.0))
    assert run(backend.break_hold("ns:a", raw))
    assert run(backend.attach(held, claim())) is None
    take(backend, claim())


def test_a_break_that_was_killed_half_way_is_finished_by_the_next(
    backend: FileBackend, directory: Path
) -> None:
    from locknut.backends.file import file_layout

    held = claim()
    take(backend, held)
    release(backend, held)
    path = next(directory.glob("*.lock"))
    with path.open("r+b") as file:
        file.seek(file_layout.GRAVE)
        file.write(file_layout.REMOVED)
    take(backend, claim())


# -- inspect


def test_who_holds_and_who_waits(backend: FileBackend, child: Start) -> None:
    held, others = claim(who="thread MainThread", label="nightly"), [child(), child()]
    raw = take(backend, held)
    others[0].wait_in_line(label="first")
    others[1].wait_in_line(mode="shared")
    (info,) = run(backend.inspect("ns:a"))
    (holder,) = info.holders
    assert info.name == "ns:a"
    assert (holder.label, holder.who, holder.raw) == ("nightly", "thread MainThread", raw)
    assert holder.since is not None
    assert abs(holder.since - time.time()) < 60
    assert [waiter.pid for waiter in info.waiters] == [other.pid for other in others]
    assert [waiter.mode for waiter in info.waiters] == [Mode.EXCLUSIVE, Mode.SHARED]
    assert info.waiters[0].label == "first"
    assert [one.name for one in run(backend.inspect())] == ["ns:a"]


def test_nobody_who_waits_is_written_over(
    backend: FileBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names have 64 rooms, by the moment one came: who finds a waiter in his takes the next."""
    first = line.now_ticket()
    moments = iter([first, first + 64, first + 65])
    monkeypatch.setattr(line, "now_ticket", lambda: next(moments))
    take(backend, claim())
    with ExitStack() as watching:
        for label in ("one", "two"):
            wanted = claim(label=label)
            assert busy(backend, wanted)
            watching.enter_context(backend.watch(wanted, signal))
            assert busy(backend, wanted)
        (info,) = run(backend.inspect("ns:a"))
    assert [waiter.label for waiter in info.waiters] == ["one", "two"]


def test_a_room_of_one_who_left_is_taken(
    backend: FileBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while the holder, who came through the line, has all moments before his own."""
    first = line.now_ticket()
    moments = iter([first, first + 1, first + 64, first + 2])
    monkeypatch.setattr(line, "now_ticket", lambda: next(moments))
    held, gone, holder, late = claim(), claim(), claim(), claim(label="late")
    take(backend, held)
    with ExitStack() as watching:
        for wanted in (gone, holder):
            watching.enter_context(backend.watch(wanted, signal))
            assert busy(backend, wanted)
        release(backend, gone)
        release(backend, held)
        take(backend, holder)
        watching.enter_context(backend.watch(late, signal))
        assert busy(backend, late)
        (info,) = run(backend.inspect("ns:a"))
    assert [waiter.label for waiter in info.waiters] == ["late"]
    assert next(moments) == first + 2


def test_readers_permits_and_owners_are_listed(backend: FileBackend) -> None:
    for one in (
        reader("ns:r", label="x"),
        reader("ns:r", label="y"),
        claim("ns:o", owner="order-7"),
    ):
        take(backend, one)
    for _ in range(2):
        take(backend, permit(5, "ns:s"))
    owners, readers, semaphore = sorted(run(backend.inspect()), key=lambda info: info.name)
    assert [holder.owner for holder in owners.holders] == ["order-7"]
    assert sorted(holder.label for holder in readers.holders) == ["x", "y"]
    assert {holder.mode for holder in readers.holders} == {Mode.SHARED}
    assert (len(semaphore.holders), semaphore.permits) == (2, 5)


def test_what_was_released_or_died_is_not_listed(backend: FileBackend, child: Start) -> None:
    held, other = claim(), child()
    take(backend, held)
    release(backend, held)
    other.ask("attempt", key="ns:b", mode="shared")
    assert [info.name for info in run(backend.inspect())] == ["ns:b"]
    other.kill()
    assert run(backend.inspect()) == []


def test_a_detached_hold_is_listed_with_what_is_left(backend: FileBackend) -> None:
    held = claim(label="web")
    take(backend, held)
    run(backend.detach(held, 60.0))
    (holder,) = run(backend.inspect("ns:a"))[0].holders
    assert holder.label == "web"
    assert holder.ttl_left is not None
    assert 0 < holder.ttl_left <= 60


def test_long_and_strange_words_are_cut_not_refused(backend: FileBackend) -> None:
    held = claim(who="\0\x1f" * 300, label="é" * 300, owner="ü" * 400)
    take(backend, held)
    (holder,) = run(backend.inspect("ns:a"))[0].holders
    assert holder.label.startswith("éé")


def test_a_lock_stopped_inside_its_few_microseconds_is_asked_again(backend: FileBackend) -> None:
    held, wanted = reader(), reader()
    take(backend, held)
    fd = backend._recipe.states[held.id].file.fd
    with holder_slots.SlotsMutex(fd):
        assert isinstance(attempt(backend, wanted), Busy)
    take(backend, wanted)
