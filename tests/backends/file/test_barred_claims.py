"""Claims that may not enter any more are remembered, but not for ever."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator

import pytest

from locknut.backends.file.barred_claims import BarredClaims

MANY = 5000


@pytest.fixture
def _switching_often() -> Iterator[None]:
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


def test_the_latest_are_remembered_and_the_oldest_are_not() -> None:
    barred = BarredClaims()
    for each in range(MANY):
        barred.bar(str(each))
    assert all(str(each) in barred for each in range(MANY - 500, MANY))
    assert len(barred) < MANY


@pytest.mark.usefixtures("_switching_often")
def test_several_threads_bar_at_once() -> None:
    """The keeper's thread bars what it gives back, while callers bar what they withdraw."""
    barred = BarredClaims()
    failed: list[Exception] = []

    def bar(thread: int) -> None:
        try:
            for each in range(MANY):
                barred.bar(f"{thread} {each}")
        except Exception as error:  # noqa: BLE001  # shown below
            failed.append(error)

    threads = [threading.Thread(target=bar, args=(each,)) for each in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert failed == []
