"""The clock of a file: one for all processes of a boot, deaf to the time of day, never back."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

import pytest

from locknut.backends.sql.table_port import RAW_STEP, US
from locknut.core.values import Busy, Renewal
from locknut.runtimes import clock, this_boot
from locknut.runtimes.threads import run
from tests.backends.sql.sqlite.place import backend, claim, take

pytestmark = pytest.mark.sqlite
real_time = time.time_ns
DAY = 86400.0


def _set_time_of_day(monkeypatch: pytest.MonkeyPatch, ahead: float) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: real_time() + int(ahead * 1e9))


def _boot(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str) -> None:
    (tmp_path / "boot").write_text(name)
    monkeypatch.setattr(this_boot, "_BOOT_ID", str(tmp_path / "boot"))


def test_a_number_reads_as_the_time_of_day(tmp_path: Path) -> None:
    made = backend(tmp_path)
    raw = take(made, claim())
    assert abs(raw * RAW_STEP / US - time.time()) < 60
    run(made.close())


@pytest.mark.parametrize("step", [-DAY, DAY])
def test_a_step_of_the_time_of_day_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: float
) -> None:
    """A process that comes after the step goes by the same clock as those before it."""
    made, held = backend(tmp_path), claim()
    raw = take(made, held)
    _set_time_of_day(monkeypatch, step)
    other = backend(tmp_path)
    assert isinstance(run(other.attempt(claim(), 0.0)), Busy)
    assert run(other.renew([held])) == [Renewal.HELD]
    later = take(other, claim("t:y"))
    assert raw < later < raw + 60 * US / RAW_STEP
    run(made.close())
    run(other.close())


def test_it_runs_with_the_clock_of_the_contract(tmp_path: Path) -> None:
    """Also while the machine is suspended: what is held runs out by it."""
    ahead = [0.0]
    made = backend(tmp_path, now=lambda: clock.now() + ahead[0])
    held = claim(ttl=30.0)
    raw = take(made, held)
    ahead[0] = 31.0
    assert run(made.renew([held])) == [Renewal.LOST]
    assert take(made, claim()) > raw
    run(made.close())


@pytest.mark.parametrize("ahead", [-10 * DAY, 10 * DAY])
def test_numbers_grow_over_a_boot_whatever_the_time_of_day_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ahead: float
) -> None:
    """The clock since the boot begins anew, and a machine may have no battery for the other."""
    _boot(monkeypatch, tmp_path, "first")
    made, held = backend(tmp_path), claim()
    raw = take(made, held)
    run(made.release(held))
    run(made.close())
    _boot(monkeypatch, tmp_path, "second")
    _set_time_of_day(monkeypatch, ahead)
    start = clock.now()
    later = backend(tmp_path, now=lambda: clock.now() - start + 5.0)
    assert take(later, claim()) > raw
    assert take(later, claim("t:new")) > raw
    run(later.close())


def test_numbers_that_were_pruned_are_not_given_again_after_a_boot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _boot(monkeypatch, tmp_path, "first")
    ahead = [0.0]
    made, held = backend(tmp_path, now=lambda: clock.now() + ahead[0]), claim()
    raw = take(made, held)
    run(made.release(held))
    ahead[0] = 3 * DAY
    run(made.tidy())
    run(made.close())
    with sqlite3.connect(tmp_path / "locks.db") as database:
        names = [bytes(row[0]) for row in database.execute("SELECT name FROM locknut_locks")]
    database.close()
    assert names == [b"m"]
    _boot(monkeypatch, tmp_path, "second")
    _set_time_of_day(monkeypatch, -10 * DAY)
    later = backend(tmp_path)
    assert take(later, claim()) > raw
    run(later.close())


def test_a_hold_of_before_the_boot_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a time of day that went back it would seem to be held for days."""
    _boot(monkeypatch, tmp_path, "first")
    made = backend(tmp_path)
    take(made, claim(ttl=2.0))
    run(made.close())
    _boot(monkeypatch, tmp_path, "second")
    _set_time_of_day(monkeypatch, -DAY)
    ahead = [0.0]
    later, wanted = backend(tmp_path, now=lambda: clock.now() + ahead[0]), claim()
    assert isinstance(run(later.attempt(wanted, 0.0)), Busy)
    ahead[0] = 3.0
    run(later.release(wanted))
    assert take(later, claim())
    run(later.close())


def test_without_a_boot_id_it_is_the_time_of_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(this_boot, "_BOOT_ID", "/nonexistent")
    made, other, held = backend(tmp_path), backend(tmp_path), claim()
    raw = take(made, held)
    assert isinstance(run(other.attempt(claim(waits=False), 0.0)), Busy)
    run(made.release(held))
    assert take(other, claim()) > raw
    run(made.close())
    run(other.close())
