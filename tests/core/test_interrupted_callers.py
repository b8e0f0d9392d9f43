"""An interrupt (Ctrl-C) that a program survives costs nothing of what it holds besides."""

from __future__ import annotations

import base64  # noqa: F401  # `detach` imports it: an import stands no interrupt
import json  # noqa: F401  # the same
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from typing import Any

import pytest

import locknut
from locknut.backends.memory import MemoryEngine
from locknut.backends.memory.backend import MemoryBackend
from locknut.backends.memory.store import Store
from locknut.core import acquiring, detaching, naming_holder, releasing, renewing
from locknut.core.client import Client
from locknut.core.holding import NEW, Hold
from locknut.core.runtime_port import NEVER
from locknut.core.values import Answer, Claim, Granted
from locknut.runtimes.threads import run
from tests.api import crowd
from tests.core import thread_shots
from tests.core.test_timetable_rest import a_hold

PATIENCE = 30.0
TTL = 30.0
NOBODYS = a_hold()

pytestmark = [
    pytest.mark.skipif(
        (3, 12) <= sys.version_info < (3, 13),
        reason="needs CPython 3.11 or 3.13: that in between crashes when threads are traced so",
    ),
    pytest.mark.filterwarnings("ignore:coroutine .* was never awaited"),
]


@pytest.fixture(autouse=True)
def dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)  # Python drops them in finalizers


def until(question: Callable[[], object], what: str) -> None:
    give_up = time.monotonic() + PATIENCE
    while not question():
        assert time.monotonic() < give_up, what
        time.sleep(0.0005)


class Caller:
    """A thread that does one thing, and lives on until the test is done with it."""

    def __init__(self, act: Callable[[], object]) -> None:
        self.result: object = None
        self._act = act
        self._done, self._over = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        assert self._done.wait(PATIENCE)

    def _run(self) -> None:
        try:
            self.result = self._act()
        except KeyboardInterrupt:
            pass
        finally:
            self._done.set()
        self._over.wait(PATIENCE)

    def end(self) -> None:
        self._over.set()
        self._thread.join()


def interrupted(
    inside: Callable[..., object], act: Callable[[locknut.Locks], Callable[[], object]]
) -> Iterator[tuple[locknut.Locks, Any, str]]:
    """The Locks, what the act returned and where it was hit: once for each moment inside."""
    for moment in count(1):
        with locknut.Locks(MemoryEngine()) as locks:
            for level in (logging.DEBUG, logging.INFO):  # it remembers what was asked: its own
                logging.getLogger("locknut").isEnabledFor(level)  # lock stands no interrupt
            prepared = act(locks)
            with thread_shots.aimed(inside, moment, KeyboardInterrupt) as shot:
                caller = Caller(prepared)
            if shot.where:
                yield locks, caller.result, shot.where
            caller.end()
        if not shot.where:
            assert moment > 2, "it was hardly ever hit"  # CPython 3.13 looks least often
            return


def will_be_renewed(client: Client, *holds: Hold) -> bool:
    """Whether each has a date, or is still to get one, and no FIFO is blocked by its head."""
    timetable = client.schedule.timetable
    with client.guard:
        listed = [hold for fifo in timetable._fifos.values() for hold in fifo]
        listed += [hold for due, _, hold in timetable._heap if due == hold.due]
        new = [hold for hold in client.holds.values() if hold.bucket is NEW]
        return set(holds) <= {*listed, *new} and all(hold.due < NEVER for hold in listed)


def held(locks: locknut.Locks, name: str) -> locknut.Lease:
    lease = locks.lock(name, ttl=TTL).acquire()
    assert lease is not None
    return lease


def test_a_renewal_by_hand_leaves_no_hold_without_a_date() -> None:
    leases: list[locknut.Lease] = []

    def act(locks: locknut.Locks) -> Callable[[], object]:
        leases[:] = [held(locks, "another"), held(locks, "renewed")]
        return leases[1].renew

    for locks, _, where in interrupted(renewing.renew, act):
        holds = [lease._hold for lease in leases]
        client = locks._client
        until(lambda: will_be_renewed(client, *holds), f"not renewed any more after {where}")  # noqa: B023
        assert all(lease.held for lease in leases)


def test_a_release_keeps_no_other_hold_from_being_renewed() -> None:
    leases: list[locknut.Lease] = []

    def act(locks: locknut.Locks) -> Callable[[], object]:
        leases[:] = [held(locks, name) for name in ("released", "another", "third")]
        with locks._client.guard:
            locks._client.schedule.take_in()  # as its next look would
        return leases[0].release

    for locks, _, where in interrupted(releasing.begin_release, act):
        others = [lease._hold for lease in leases[1:]]
        assert will_be_renewed(locks._client, *others), where


def test_a_caller_that_did_not_come_into_the_line_does_not_end_it() -> None:
    """The one that holds the lock has the turn, and nobody else gives it away."""
    leases: list[locknut.Lease] = []

    def act(locks: locknut.Locks) -> Callable[[], object]:
        leases[:] = [held(locks, "x")]
        return lambda: locks.lock("x", ttl=TTL).acquire(timeout=0)

    for locks, _, where in interrupted(acquiring.acquire, act):
        line = leases[0]._hold.line
        assert line is not None
        assert list(locks._client.lines.values()) == [line], where
        assert not line.waiters, where


def test_a_grant_that_came_too_late_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing else would end it, where no ttl does."""
    late: list[bool] = []
    attempt = MemoryBackend.attempt

    async def first_too_late(backend: MemoryBackend, claim: Claim, patience: float) -> Answer:
        answer = await attempt(backend, claim, patience)
        if late and isinstance(answer, Granted):
            late.clear()
            return answer._replace(until=0.0)
        return answer

    monkeypatch.setattr(MemoryBackend, "attempt", first_too_late)

    def act(locks: locknut.Locks) -> Callable[[], object]:
        late[:] = [True]
        return lambda: locks.lock("x").acquire(timeout=PATIENCE)

    for locks, lease, where in interrupted(acquiring._win, act):
        if lease is not None:
            lease.release()
        until(lambda: not locks.info("x").locked, f"nobody has it, nor gives it back: {where}")  # noqa: B023


def test_a_read_that_was_not_made_leaves_the_write_alone() -> None:
    leases: list[locknut.Lease | None] = []

    def act(locks: locknut.Locks) -> Callable[[], object]:
        both = locks.rwlock("x", ttl=TTL)

        def read_inside() -> None:
            leases[:] = [both.write().acquire()]
            both.read().acquire()

        return read_inside

    for locks, _, where in interrupted(acquiring._read_inside, act):
        (write,) = leases
        assert write is not None
        nothing_is_to_be_done(locks)
        assert write.held, where
        assert locks.info("x").locked, where


def nothing_is_to_be_done(locks: locknut.Locks) -> None:
    """Wait until the keeper has done what it was asked for before."""
    done = threading.Event()

    async def errand(_: object) -> None:
        locks._client.keeper._abandoned.append((NOBODYS, -1))  # the last one of its queue
        done.set()

    crowd.collect()
    locks._client.later(errand)
    assert done.wait(PATIENCE)
    keeper = locks._client.keeper
    until(lambda: not keeper._abandoned and not keeper.undoing, "the keeper does not clean up")


def test_a_read_that_was_interrupted_right_after_it_was_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """CPython looks for signals when a class that was called returns: no trace function sees it."""
    with locknut.Locks(MemoryEngine()) as locks:
        both = locks.rwlock("x", ttl=TTL)
        write = both.write().acquire()
        assert write is not None
        make = locks._client.lease_type

        def made_and_interrupted(*facts: Any) -> None:
            make(*facts)
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(locks._client, "lease_type", made_and_interrupted)
            with pytest.raises(KeyboardInterrupt):
                both.read().acquire()
        nothing_is_to_be_done(locks)
        assert write.held
        assert locks.info("x").locked
        assert locks.force_release("x")
        until(lambda: write.state is locknut.State.LOST, "the write was not told of its loss")


def test_a_question_that_nobody_asks_any_more_is_asked_by_another() -> None:
    """Whoever gave up after it waited for its answer in vain, and was not told the holder."""

    def act(locks: locknut.Locks) -> Callable[[], object]:
        held(locks, "x")
        return lambda: run(naming_holder.holder(locks._client, "x"))

    for locks, _, where in interrupted(naming_holder.holder, act):
        ask = partial(naming_holder.holder, locks._client, "x")
        until(lambda: run(ask()), f"nobody asks any more after {where}")  # noqa: B023


def test_a_detach_whose_text_nobody_has_is_given_back() -> None:
    """Or nothing was done yet: then the lease is there to be released."""
    leases: list[locknut.Lease] = []

    def act(locks: locknut.Locks) -> Callable[[], object]:
        leases[:] = [held(locks, "x")]
        return lambda: leases[0].detach(10 * PATIENCE)

    for locks, text, where in interrupted(detaching.detach, act):
        if leases[0].held:
            leases[0].release()
        elif text is not None:  # a finalizer was hit, where Python drops exceptions
            locks.attach(text).release()
        assert locks.lock("x").acquire(timeout=PATIENCE), where
        assert len(locks._client.holds) == 1, where


def test_an_attach_that_nobody_has_is_given_back() -> None:
    texts: list[str] = []

    def act(locks: locknut.Locks) -> Callable[[], object]:
        texts[:] = [held(locks, "x").detach(10 * PATIENCE)]
        return lambda: locks.attach(texts[0])

    for locks, attached, where in interrupted(detaching.attach, act):
        if attached is not None:
            attached.release()
        client, lock = locks._client, locks.lock("x")
        until(lambda: not client.holds, f"a hold that nobody has is renewed after {where}")  # noqa: B023
        if lock.acquire(timeout=0) is None:
            nothing_is_to_be_done(locks)  # or it was not attached: then it still can be
            assert lock.acquire(timeout=0) or locks.attach(texts[0]), where


def test_a_lock_that_was_broken_is_not_free_without_a_word() -> None:
    leases: list[locknut.Lease | None] = []

    def act(locks: locknut.Locks) -> Callable[[], object]:
        leases[:] = [locks.lock("x").acquire()]  # without a ttl, so nobody asks for it again
        # Its thread runs already: Python lists one for good whose start is interrupted.
        locks._client.keeper.ring()
        return lambda: locks.force_release("x")

    for locks, _, where in interrupted(Store.break_hold, act):
        (lease,) = leases
        assert lease is not None
        if not locks.info("x").locked:
            until(lambda: not lease.held, f"its holder believes in it after {where}")  # noqa: B023
