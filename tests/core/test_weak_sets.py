"""Other threads add to our weak sets while one of them is read: nobody is left out for that."""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import locknut
from locknut import opening
from locknut.backends.file import this_process
from locknut.drivers.redis.endpoints import Latest
from locknut.metrics import measurements
from locknut.runtimes.cpython import members
from tests.contracts.sources import sources


class Member:
    """Something to refer to, which notes that it was told."""

    def __init__(self) -> None:
        self.told = 0
        self.mutex = threading.RLock()

    def overtaken(self) -> None:
        self.told += 1

    def spare(self) -> bool:
        self.told += 1
        return False


class Busy(weakref.WeakSet[Any]):
    """While it is read for the first time, another thread adds to it after the first member."""

    def __init__(self) -> None:
        super().__init__()
        self.come: list[Member] = []

    def __iter__(self) -> Iterator[Any]:
        for number, each in enumerate(super().__iter__()):
            yield each
            if number == 0 and not self.come:
                self.come.append(Member())
                other = threading.Thread(target=self.add, args=(self.come[0],))
                other.start()
                other.join()


def busy() -> tuple[Busy, list[Member]]:
    made, kept = Busy(), [Member() for _ in range(20)]
    for each in kept:
        made.add(each)
    return made, kept


def test_a_set_that_grows_is_read_whole() -> None:
    made, kept = busy()
    assert set(members(made)) >= set(kept)
    assert made.come


def test_no_other_error_is_swallowed() -> None:
    class Broken(weakref.WeakSet[Any]):
        def __iter__(self) -> Iterator[Any]:
            raise RecursionError

    with pytest.raises(RecursionError):
        members(Broken())


def test_threads_that_add_do_not_disturb() -> None:
    before, made, ended = sys.getswitchinterval(), weakref.WeakSet[Member](), threading.Event()
    kept = [Member() for _ in range(200)]
    for each in kept:
        made.add(each)

    def come_and_go() -> None:
        while not ended.is_set():
            made.add(Member())

    others = [threading.Thread(target=come_and_go) for _ in range(2)]
    sys.setswitchinterval(1e-6)
    try:
        for each_thread in others:
            each_thread.start()
        for _ in range(200):
            assert set(members(made)) >= set(kept)
    finally:
        ended.set()
        sys.setswitchinterval(before)
        for each_thread in others:
            each_thread.join()


def test_all_connections_leave_a_server_that_has_a_successor() -> None:
    latest, (made, kept) = Latest(), busy()
    latest._followers = made
    latest.overtake()
    assert {each.told for each in kept} == {1}


def test_all_files_that_are_kept_open_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    made, kept = busy()
    monkeypatch.setattr(this_process, "_rememberers", made)

    def none_left() -> int:
        raise OSError(24, "Too many open files")

    with pytest.raises(OSError, match="Too many"):
        this_process.open_owned(none_left)
    assert {each.told for each in kept} == {1}


def test_all_metrics_stand_still_while_the_process_forks(monkeypatch: pytest.MonkeyPatch) -> None:
    made, _ = busy()
    monkeypatch.setattr(measurements, "_all", made)
    measurements._before_fork()
    try:
        assert len(measurements._at_fork) == len(made)
    finally:
        measurements._after_fork()


def test_all_clients_are_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made = Busy()
    monkeypatch.setattr(opening, "_open", made)
    with locknut.connect(f"file://{tmp_path}/one"), locknut.connect(f"file://{tmp_path}/other"):
        assert len(opening._measurable(None)) >= len(made) - 1


def test_weak_sets_are_read_in_one_place() -> None:
    """A plain loop over one works until two threads come together."""
    wrong = [
        f"{source}:{number}"
        for source in sources()
        if "WeakSet" in (text := source.path.read_text(encoding="utf-8"))
        for name in _weak_sets(text)
        for number, line in enumerate(text.splitlines(), 1)
        if f"in {name}:" in line or f"list({name})" in line or f"tuple({name})" in line
    ]
    assert not wrong


def _weak_sets(text: str) -> list[str]:
    """What they are called in this file."""
    return [
        line.split(":", 1)[0].strip()
        for line in text.splitlines()
        if "= weakref.WeakSet()" in line or "= WeakSet()" in line
    ]
