"""The line as the kernel keeps it: whatever it answers, the lowest ticket is found."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from locknut.backends.file import line, ofd_locks
from locknut.backends.file.file_layout import LOCK, QUEUE
from locknut.backends.file.ofd_locks import READ, WRITE


@pytest.fixture
def fds(tmp_path: Path) -> Iterator[list[int]]:
    opened = [os.open(tmp_path / "x", os.O_RDWR | os.O_CREAT) for _ in range(6)]
    yield opened
    for fd in opened:
        os.close(fd)


def test_the_lowest_ticket_is_found_in_whatever_order_they_came(fds: list[int]) -> None:
    """The kernel tells the first conflict in its own list, which is not the lowest."""
    looking, *waiting = fds
    for fd, at in zip(waiting, (300, 100, 500, 200, 400), strict=True):
        assert line.join(fd, WRITE, QUEUE + at) == QUEUE + at
    first = line.first(looking)
    assert first is not None
    assert first.start == QUEUE + 100
    assert [one.start - QUEUE for one in line.walk(looking)] == [100, 200, 300, 400, 500]
    assert [line.ahead(looking, QUEUE + at) for at in (50, 150, 250, 450)] == [0, 1, 2, 2]
    behind = line.after(looking, QUEUE + 250)
    assert behind is not None
    assert behind.start == QUEUE + 300


def test_a_holder_that_came_through_the_line_is_not_a_waiter(fds: list[int]) -> None:
    looking, holder, one, other, *_ = fds
    assert line.join(holder, WRITE, QUEUE + 100)
    assert ofd_locks.take(holder, WRITE, LOCK, QUEUE + 100 - LOCK)
    assert line.first(looking) is None
    assert line.ahead(looking, QUEUE + 500) == 0
    line.join(other, READ, QUEUE + 300)
    line.join(one, WRITE, QUEUE + 200)
    assert [one.start - QUEUE for one in line.walk(looking)] == [200, 300]
    assert line.lock_kind(looking) == WRITE


def test_a_moment_covered_by_a_later_holder_is_not_to_be_had(fds: list[int]) -> None:
    holder, late, *_ = fds
    assert ofd_locks.take(holder, WRITE, LOCK, line.now_ticket() + 1 - LOCK)
    assert line.join(late, WRITE, QUEUE + 5) > QUEUE + 5
