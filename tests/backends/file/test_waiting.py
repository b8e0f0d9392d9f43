"""The line: who is next, who is rung, and what a wait costs. The nets are too wide to help."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from locknut.backends.file import grants, holder_slots, line, this_process
from locknut.backends.file.backend import FileBackend
from locknut.backends.file.bells import Bell
from locknut.backends.file.waiters import IN_LINE
from locknut.core.values import Busy, Claim
from locknut.runtimes.clock import now
from locknut.runtimes.loop import LoopRuntime
from locknut.runtimes.threads import ThreadRuntime
from tests.backends.file.driving import (
    acquire,
    attempt,
    busy,
    claim,
    engine_in,
    open_descriptors,
    permit,
    reader,
    release,
    run,
    signal,
    take,
)


@pytest.fixture(autouse=True)
def nets(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_FIRST", "_LONGEST"):
        monkeypatch.setattr(f"locknut.backends.file.line.{name}", (3600.0, 3600.0))
    monkeypatch.setattr("locknut.backends.file.line._FAR", 3600.0)


@pytest.fixture
def watches() -> Iterator[Callable[[FileBackend, Claim], Bell]]:
    """Have a claim wait in line with its bell hung."""
    with ExitStack() as watching:

        def wait(backend: FileBackend, wanted: Claim) -> Bell:
            assert busy(backend, wanted)
            bell: Any = watching.enter_context(backend.watch(wanted, signal))
            assert busy(backend, wanted)
            while run(bell.wait(now())):
                attempt(backend, wanted)  # what was rung until now does not count
            return bell  # type: ignore[no-any-return]

        yield wait


Watches = Callable[[FileBackend, Claim], Bell]


def _rung(bell: Bell) -> bool:
    return run(bell.wait(now() + 0.2))


# -- order


def test_an_owner_does_not_pass_a_writer_that_waits(backend: FileBackend, watches: Watches) -> None:
    held, writer, owner = claim(), claim(), claim(owner="o")
    take(backend, held)
    for one in (writer, owner):
        watches(backend, one)
    release(backend, held)
    assert busy(backend, owner)
    take(backend, writer)
    release(backend, writer)
    take(backend, owner)


def test_the_order_is_kept_over_a_break_whoever_notices_first(
    backend: FileBackend, watches: Watches
) -> None:
    held, first, last, new = claim(), claim(), claim(), claim()
    take(backend, held)
    for one in (first, last):
        watches(backend, one)
    assert run(backend.break_hold("ns:a", None))
    release(backend, held)
    take(backend, new)
    assert busy(backend, last)
    assert busy(backend, first)
    release(backend, new)
    assert busy(backend, last)
    take(backend, first)


@pytest.mark.parametrize("make", [claim, lambda: claim(fair=True), lambda: permit(1)])
def test_more_than_a_few_of_one_process_keep_their_places(
    directory: Path, make: Callable[[], Claim]
) -> None:
    """Those who wait without a descriptor come before whoever came later in another process."""
    one, other = (
        engine_in(directory).blocking(ThreadRuntime()),
        engine_in(directory).blocking(ThreadRuntime()),
    )
    held, order = make(), [(one, make()) for _ in range(30)]
    order += [(other, make()), *((one, make()) for _ in range(10)), (other, make())]
    take(one, held)
    before = open_descriptors()
    with ExitStack() as watching:
        for backend, wanted in order:
            assert busy(backend, wanted)
            watching.enter_context(backend.watch(wanted, signal))
            assert busy(backend, wanted)
        assert len(open_descriptors() - before) < 40
        listed = run(one.inspect("ns:a"))[0].waiters
        assert len(listed) == IN_LINE + 2  # of this process, and both of the other
        release(one, held)
        for at, (backend, wanted) in enumerate(order):
            for their, another in order[at + 1 :]:
                assert busy(their, another)
            take(backend, wanted)
            release(backend, wanted)
    assert not one._recipe.waiting_room._rooms


@pytest.mark.parametrize("how", ["gives up", "gets in"])
def test_the_next_one_is_called_into_the_line(
    backend: FileBackend, watches: Watches, how: str
) -> None:
    held, wanted = claim(fair=True), [claim(fair=True) for _ in range(IN_LINE + 2)]
    take(backend, held)
    bells = [watches(backend, one) for one in wanted]
    if how == "gives up":
        release(backend, wanted[3])
    else:
        release(backend, held)
        take(backend, wanted[0])
    assert _rung(bells[IN_LINE])
    assert busy(backend, wanted[IN_LINE])
    assert not _rung(bells[IN_LINE + 1])
    assert len(run(backend.inspect("ns:a"))[0].waiters) == IN_LINE


def test_who_gives_up_outside_of_the_line_leaves_nothing(backend: FileBackend) -> None:
    held, wanted = claim(fair=True), [claim(fair=True) for _ in range(20)]
    take(backend, held)
    with ExitStack() as watching:
        for one in wanted:
            assert busy(backend, one)
            watching.enter_context(backend.watch(one, signal))
            assert busy(backend, one)
        for one in (*wanted[10:], *wanted[:9]):
            assert not release(backend, one)
        release(backend, held)
        take(backend, wanted[9])
        release(backend, wanted[9])
    assert not backend._recipe.waiting_room._rooms
    assert not backend._recipe.states


# -- rings


def test_a_release_rings_the_first_in_line_not_whom_the_kernel_names(
    backend: FileBackend, watches: Watches, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel lists its locks in the order in which they were taken."""
    moment = line.now_ticket()
    moments = iter([moment + 1001, moment + 500])
    monkeypatch.setattr(line, "now_ticket", lambda: next(moments))
    held, later, first = claim(), claim(), claim()
    take(backend, held)
    watches(backend, later)
    bell = watches(backend, first)
    release(backend, held)
    assert _rung(bell)
    take(backend, first)


def test_a_ring_between_ticket_and_bell_is_not_missed(backend: FileBackend) -> None:
    held, wanted = claim(), claim()
    take(backend, held)
    assert busy(backend, wanted)  # a ticket, and no bell yet
    release(backend, held)
    with backend.watch(wanted, signal):
        take(backend, wanted)


@pytest.mark.parametrize("make", [lambda: claim(owner="o", fair=True), claim])
def test_who_steps_back_rings_the_head_it_kept_out(
    backend: FileBackend,
    watches: Watches,
    monkeypatch: pytest.MonkeyPatch,
    make: Callable[[], Claim],
) -> None:
    """A newcomer has the lock for a moment and must step back; just then the head of the line asks
    and is refused.
    """
    held, head = claim(), claim()
    take(backend, held)
    bell = watches(backend, head)
    if make().owner is None:
        run(backend.detach(held, 60.0))
    else:
        release(backend, held)
    while _rung(bell):
        pass
    asked: list[bool] = []

    def refused(real: Callable[..., Any]) -> Callable[..., Any]:
        def step(*arguments: Any, **named: Any) -> Any:
            if not asked:
                asked.append(True)
                assert busy(backend, head)
            return real(*arguments, **named)

        return step

    monkeypatch.setattr(grants, "_in_turn", refused(grants._in_turn))
    monkeypatch.setattr(grants, "_refuse_detached", refused(grants._refuse_detached))
    assert busy(backend, make())
    assert asked
    assert _rung(bell)


@pytest.mark.parametrize(
    ("inside", "waiting"),
    [
        ("owner", [reader, reader]),
        ("detached", [reader, reader]),
        ("detached", [reader, lambda: claim(owner="a")]),
        ("detached", [lambda: claim(owner="a"), lambda: claim(owner="b")]),
        ("detached", [claim, lambda: claim(owner="b")]),
    ],
)
def test_two_who_are_refused_do_not_wake_each_other_without_end(
    directory: Path, inside: str, waiting: list[Callable[[], Claim]], watches: Watches
) -> None:
    backend, held = engine_in(directory).blocking(ThreadRuntime()), claim(owner="in")
    take(backend, held)
    if inside == "detached":
        run(backend.detach(held, 60.0))
    others = [(engine_in(directory).blocking(ThreadRuntime()), make()) for make in waiting]
    bells = [watches(engine, wanted) for engine, wanted in others]
    attempts, until = 0, time.monotonic() + 1.0
    attempt(*others[0])
    while time.monotonic() < until:
        for (engine, wanted), bell in zip(others, bells, strict=True):
            if run(bell.wait(now() + 0.002)):
                attempts += 1
                assert busy(engine, wanted)
    assert attempts < 60


def test_a_permit_that_is_refused_wakes_nobody(backend: FileBackend, watches: Watches) -> None:
    held, first = permit(1), permit(1)
    take(backend, held)
    bell = watches(backend, first)
    for _ in range(5):
        assert busy(backend, permit(1, waits=False))
    assert not _rung(bell)


# -- non-blocking attempts


@pytest.mark.parametrize("fair", [False, True])
def test_a_non_blocking_attempt_turns_nobody_away(backend: FileBackend, fair: bool) -> None:
    held, other = reader(), reader()
    take(backend, held)
    answer = attempt(backend, claim(waits=False, fair=fair))
    assert isinstance(answer, Busy)
    assert not answer.queued
    assert run(backend.inspect("ns:a"))[0].waiters == ()
    assert list(backend._recipe.states) == [held.id]
    take(backend, other)


def test_a_try_while_others_wait_leaves_the_line_as_it_was(
    backend: FileBackend, watches: Watches
) -> None:
    held, waits = claim(), claim()
    take(backend, held)
    bell = watches(backend, waits)
    for make in (claim, reader):
        assert not getattr(attempt(backend, make(waits=False)), "queued", True)
    release(backend, held)
    assert _rung(bell)
    take(backend, waits)


# -- somebody is stopped in the middle


def test_pauses_grow_behind_one_who_is_stopped_amid_a_change(backend: FileBackend) -> None:
    held, wanted = reader(), reader()
    take(backend, held)
    with holder_slots.SlotsMutex(backend._recipe.states[held.id].file.fd):
        pauses = [attempt(backend, wanted) for _ in range(8)]
    assert all(isinstance(answer, Busy) for answer in pauses)
    lengths = [answer.retry_in for answer in pauses if isinstance(answer, Busy)]
    assert lengths == [0.002, 0.004, 0.008, 0.016, 0.032, 0.05, 0.05, 0.05]
    take(backend, wanted)


def test_a_try_does_not_look_again_and_again_behind_a_stopped_cleaner(
    backend: FileBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    from locknut.backends.file import ofd_locks

    held = claim()
    take(backend, held)
    release(backend, held)
    cleaner = backend._recipe.files.open_existing("ns=a.lock")
    assert cleaner is not None
    assert ofd_locks.take(cleaner.fd, ofd_locks.WRITE, 0, ofd_locks.END)
    opened, real = [], this_process.open_file

    def counted(*arguments: Any, **named: Any) -> int:
        opened.append(arguments)
        return real(*arguments, **named)

    monkeypatch.setattr(this_process, "open_file", counted)
    assert busy(backend, claim(waits=False))
    assert len(opened) < 50
    this_process.close_fd(cleaner.fd)


# -- no descriptor, or no sockets


@pytest.fixture
def no_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> None:
        raise OSError(97, "Address family not supported by protocol")

    monkeypatch.setattr(this_process, "open_socket", refused)
    monkeypatch.setattr("locknut.backends.file.line._FIRST", (0.01, 0.01))


@pytest.mark.usefixtures("no_sockets")
def test_without_sockets_a_wait_goes_by_its_net(directory: Path) -> None:
    backend, other = (
        engine_in(directory).blocking(ThreadRuntime()),
        engine_in(directory).blocking(ThreadRuntime()),
    )
    held, wanted = claim(), claim()
    take(backend, held)

    def leave() -> None:
        assert release(backend, held)

    assert run(acquire(other, wanted, on_wait=leave)) is not None
    assert release(other, wanted)


@pytest.mark.usefixtures("no_sockets")
def test_so_does_one_on_a_loop(directory: Path) -> None:
    backend, other = (
        engine_in(directory).asyncio(LoopRuntime()),
        engine_in(directory).asyncio(LoopRuntime()),
    )
    held, wanted = claim(), claim()

    async def story() -> None:
        await backend.attempt(held, 0.0)
        waiting = asyncio.create_task(acquire(other, wanted, on_wait=waits.set))
        await waits.wait()
        assert await backend.release(held)
        assert await waiting is not None
        assert await other.release(wanted)

    waits = asyncio.Event()
    asyncio.run(story())


def test_a_release_wakes_by_the_net_when_no_socket_is_left(
    directory: Path, watches: Watches, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend, other = (
        engine_in(directory).blocking(ThreadRuntime()),
        engine_in(directory).blocking(ThreadRuntime()),
    )
    held, wanted = claim(), claim()
    take(backend, held)
    watches(other, wanted)

    def none_left() -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(this_process, "open_socket", none_left)
    assert release(backend, held)
    take(other, wanted)


def test_a_watch_that_cannot_open_its_file_says_so(
    backend: FileBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    from locknut.errors import BackendError

    def none_left(*_: object, **__: object) -> int:
        raise OSError(24, "Too many open files")

    take(backend, claim())  # the directory is open: only the file is not
    monkeypatch.setattr(os, "open", none_left)
    with pytest.raises(BackendError, match=r"could not be used.*Too many open files"):
        backend.watch(claim("ns:new"), signal)
