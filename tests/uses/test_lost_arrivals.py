"""An answer is lost, and what the engine says next does not tell any more whether we were counted.

Then it is an error: to be counted twice would let a party pass in a round that is not its own.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import locknut
from locknut import BackendUnavailable, BrokenBarrier
from locknut.core import counting_down, pacing
from tests.servers.processes import PATIENCE, until


@pytest.fixture(autouse=True)
def _quick_retries(monkeypatch: pytest.MonkeyPatch, patient_callers: None) -> None:
    """A busy machine stalls a non-blocking attempt for longer than it waits."""
    monkeypatch.setattr(pacing, "backoff", lambda tries, chance: 0.001 * chance)


def lost_once(
    monkeypatch: pytest.MonkeyPatch, locks: locknut.Locks, verb: str, key: str, then: Any
) -> None:
    """The first such command for this register is done, others go on, and its answer is lost."""
    backend, done = locks._client.backend, list[str]()
    real = getattr(backend, verb)

    async def lossy(claim: Any, *args: Any) -> Any:
        answer = await real(claim, *args)
        if claim.key.endswith(key) and not done:
            done.append(verb)
            then()
            raise BackendUnavailable("lost on the way back")
        return answer

    monkeypatch.setattr(backend, verb, lossy)


@pytest.mark.parametrize("verb", ["attempt", "attach"])
def test_who_cannot_learn_whether_it_was_counted_is_told_so(
    verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others passed with it, and the next round is over too: to arrive once more would let it
    pass a round late, with others who are a step ahead.
    """
    url = f"memory:not-known-{verb}"
    with locknut.connect(url) as locks, locknut.connect(url) as other:
        barrier = other.barrier("x", 2)
        if verb == "attach":  # the register is there already
            with pytest.raises(BrokenBarrier, match="timeout"):
                barrier.wait(0)

        def two_rounds() -> None:
            assert barrier.wait(PATIENCE) == 1
            with pytest.raises(BrokenBarrier, match="timeout"):
                barrier.wait(0)

        lost_once(monkeypatch, locks, verb, "x@barrier", two_rounds)
        with pytest.raises(BackendUnavailable, match="whether the arrival was counted"):
            locks.barrier("x", 2).wait(PATIENCE)
        assert barrier.waiting() == 0


def test_an_engine_that_lost_an_arrival_with_everything_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Those before it may have passed: it does not know, and does not begin anew by itself."""
    url = "memory:lost-with-all"
    with locknut.connect(url) as locks, locknut.connect(url) as other:
        with pytest.raises(BrokenBarrier, match="timeout"):
            other.barrier("x", 2).wait(0)
        lost_once(
            monkeypatch, locks, "attach", "x@barrier", lambda: other.force_release("x@barrier")
        )
        with pytest.raises(BackendUnavailable, match="whether the arrival was counted"):
            locks.barrier("x", 2).wait(PATIENCE)


def test_who_was_not_the_first_to_begin_arrives_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its own beginning never arrived: what it finds is the register of another one."""
    url = "memory:second-to-begin"
    with locknut.connect(url) as locks, locknut.connect(url) as other:
        backend, lost = locks._client.backend, list[str]()
        real = backend.attempt

        with ThreadPoolExecutor(1) as another:
            first = list[Any]()

            async def never_arrives(claim: Any, *args: Any) -> Any:
                if claim.key.endswith("x@barrier") and not lost:
                    lost.append("attempt")
                    first.append(another.submit(other.barrier("x", 2).wait, PATIENCE))
                    until(lambda: other.barrier("x", 2).waiting() == 1, "it never came")
                    raise BackendUnavailable("lost on the way there")
                return await real(claim, *args)

            monkeypatch.setattr(backend, "attempt", never_arrives)
            assert locks.barrier("x", 2).wait(PATIENCE) == 1
            assert first[0].result(PATIENCE) == 0


def test_a_count_that_cannot_be_found_any_more_is_not_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = "memory:count-not-known"
    with locknut.connect(url) as locks, locknut.connect(url) as other:

        def many() -> None:
            for _ in range(counting_down.REMEMBERED):
                other.latch("x", 100).count_down()

        lost_once(monkeypatch, locks, "attempt", "x@latch", many)
        with pytest.raises(BackendUnavailable, match="whether it was counted"):
            locks.latch("x", 100).count_down()
        assert other.latch("x", 100).left() == 100 - 1 - counting_down.REMEMBERED
