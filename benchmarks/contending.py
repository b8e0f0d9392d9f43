"""Everybody wants one lock, all the time: owner changes, shares and waits, for any engine.

Counted are changes of the owner: a lock that its releaser takes back while everybody else sleeps
makes many grants and serves nobody. Every holder also checks that it is alone.

Counting begins when the last one has come: who wakes first has the lock to himself until then, and
on a busy machine that is long enough to look like an unfair share.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from functools import partial
from typing import Literal, NamedTuple

from benchmarks.crews import Board, Lock, Member, wait_for
from benchmarks.kinds import Kind

Shape = Literal["processes", "threads", "tasks"]
START, BEGUN, LAST, INSIDE, BROKEN, SERVED, COMING = range(7)
"""Places on the board; from the last one on, who is ready, and then who has come."""
DOUBLINGS = 8


class Turns(NamedTuple):
    """What one caller got in one slice; sleeps and processor time are those of its process."""

    grants: int
    changes: int
    longest: float
    waited: float
    sleeps: int
    cpu: float
    handed: int
    """Changes of the owner, those included that came too early or too late to be counted."""
    before: int
    """The most that others were served between a question and its grant: in a line, its length."""


class Slice(NamedTuple):
    """What one crew got in one slice."""

    changes: float
    grants: float
    shares: list[int]
    longest: float
    mean: float
    sleeps: float
    cpu: float
    handed: int
    before: int

    @property
    def longest_of_mean(self) -> float:
        return self.longest / self.mean


def contend(
    kind: Kind,
    place: str,
    shape: Shape,
    size: int,
    seconds: float,
    began: Callable[[], object] = lambda: None,
) -> Slice:
    """One crew for so many seconds; `began` is called when all are ready and none has begun."""
    board = Board(COMING + 2 * size)
    board[LAST] = -1
    wants = [partial(_want, board, me, seconds) for me in range(size)]
    teams = [[want] for want in wants] if shape == "processes" else [wants]
    crew = [Member(kind, place, *team) for team in teams]
    try:
        wait_for(lambda: _all(board, COMING, size), crew)
        began()
        board[START] = time.monotonic_ns() + 20_000_000
        turns: list[list[Turns]] = [member.results() for member in crew]
    finally:
        for member in crew:
            member.stop()
    if board[BROKEN]:
        raise AssertionError("two were inside at once")
    return _slice(turns, seconds)


def until_handed_over(take: Callable[[float], Slice], seconds: float) -> Slice:
    """A slice in which the lock changed hands; each next one is twice as long.

    A bare lock has no order: on a busy machine one process may keep it for a whole short slice, and
    no rate is a multiple of none.
    """
    for doublings in range(DOUBLINGS):
        found = take(seconds * 2**doublings)
        if found.changes:
            return found
    raise AssertionError(f"one process kept the lock for {seconds * 2**doublings:g} s")


def _slice(turns: list[list[Turns]], seconds: float) -> Slice:
    every = [each for team in turns for each in team]
    grants = max(1, sum(each.grants for each in every))
    longest = max(each.longest for each in every)
    # Where nobody was served in time, the waits that ended late are all there is.
    mean = sum(each.waited for each in every) / grants or longest
    return Slice(
        sum(each.changes for each in every) / seconds,
        grants / seconds,
        [each.grants for each in every],
        longest,
        mean,
        sum(max(each.sleeps for each in team) for team in turns) / grants,
        sum(max(each.cpu for each in team) for team in turns) / grants,
        sum(each.handed for each in every),
        max(each.before for each in every),
    )


async def _want(board: Board, me: int, seconds: float, lock: Lock) -> Turns:
    """Take it, look who had it last, let go, again."""
    await lock.acquire()
    await lock.release()  # connected by now
    board[COMING + me] = 1
    while not board[START]:
        await lock.pause(0.001)
    await lock.pause(max(0.0, (board[START] - time.monotonic_ns()) / 1e9))
    asked, span = _come(board, me), int(seconds * 1e9)
    grants = changes = handed = longest = waited = before = 0
    used = _used()
    while not board[BEGUN] or asked < board[BEGUN] + span:
        served = board[SERVED]
        await lock.acquire()
        got, begun = time.monotonic_ns(), board[BEGUN]
        before = max(before, board[SERVED] - served)
        board[SERVED] += 1
        if board[INSIDE]:
            board[BROKEN] = 1
        board[INSIDE] = me + 1
        if not begun:
            used = _used()
        else:
            longest = max(longest, got - asked)
            if got < begun + span:  # the last one of each is late, and the slower the lock the more
                grants += 1
                waited += got - asked
                changes += board[LAST] != me
        handed += board[LAST] != me
        board[LAST] = me
        if board[INSIDE] != me + 1:
            board[BROKEN] = 1
        board[INSIDE] = 0
        await lock.release()
        asked = time.monotonic_ns()
    sleeps, cpu = (now - then for now, then in zip(_used(), used, strict=True))
    return Turns(grants, changes, longest / 1e9, waited / 1e9, int(sleeps), cpu, handed, before)


def _come(board: Board, me: int) -> int:
    """Now; and if we are the last one to come, counting begins."""
    size = (len(board) - COMING) // 2
    board[COMING + size + me] = 1
    now = time.monotonic_ns()
    if not board[BEGUN] and _all(board, COMING + size, size):
        board[BEGUN] = now
    return now


def _all(board: Board, first: int, size: int) -> bool:
    return all(board[first + each] for each in range(size))


def _used() -> tuple[float, float]:
    """How often this process has slept, and its processor time."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw, time.process_time()
