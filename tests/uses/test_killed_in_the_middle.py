"""What people copy keeps its promise when two processes are killed in the middle of their work."""

from __future__ import annotations

from pathlib import Path

import pytest

import locknut
from tests.contracts.most_wanted import Place
from tests.servers.processes import until
from tests.uses.clock_on_the_wall import NOON
from tests.uses.hosts import HANGS, Host, Hosts
from tests.uses.killed_uses import HERE, Use

pytestmark = pytest.mark.faults

SERVERS = {"redis": "redis_server", "postgresql": "postgresql_database"}


@pytest.fixture
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "file":
        return f"file://{tmp_path}/locks"
    at: str = request.getfixturevalue(SERVERS[request.param]).url
    return f"{at}?namespace={tmp_path.name}" if request.param == "redis" else at


def marks(place: Place, engine: str) -> list[pytest.MarkDecorator]:
    slow = [] if engine in HERE[place].quick else [pytest.mark.slow]
    return [getattr(pytest.mark, engine), *slow]


@pytest.mark.parametrize(
    ("place", "url"),
    [
        pytest.param(place, engine, id=f"{place}-{engine}", marks=marks(place, engine))
        for place, use in HERE.items()
        for engine in use.engines
    ],
    indirect=["url"],
)
def test_it_works_with_two_processes_killed_in_the_middle(
    place: Place, url: str, tmp_path: Path
) -> None:
    bears_two_kills(HERE[place], place, url, tmp_path)


def bears_two_kills(use: Use, place: Place, url: str, folder: Path) -> None:
    with locknut.connect(url) as locks, use.others(locks), Hosts(folder, url) as hosts:
        hosts.command = use.command(hosts, place)
        if use.slot:
            hosts.set_clock(NOON)
        first = hosts.one_inside()
        second = _comes_second(use, locks, hosts)
        first.kill()
        _next_slot(use, hosts, 1)
        hosts.one_inside(second).kill()
        _next_slot(use, hosts, 2)
        third = hosts.one_inside()
        hosts.go_on()
        third.ends_well()
        # Nobody began before the one in the middle was gone.
        assert hosts.diary == ["begun", "killed", "begun", "killed", "begun", "ended"]
        hosts.start().ends_well()
        assert hosts.diary[6:] == (["begun", "ended"] if use.again else [])
        assert use.holds_after(hosts)


def _comes_second(use: Use, locks: locknut.Locks, hosts: Hosts) -> Host | None:
    """While the first is in the middle; return it if it waits."""
    second = hosts.start()

    def is_settled() -> bool:
        waits = bool(use.waits_for) and bool(locks.info(use.waits_for).waiters)
        return waits or second.is_over or second.is_inside

    until(is_settled, "the second one waits, or leaves", HANGS)
    assert hosts.diary == ["begun"], "two are in the middle"
    if use.waits_for:
        assert not second.is_over, second.end()
        return second
    second.ends_well()
    return None


def _next_slot(use: Use, hosts: Hosts, number: int) -> None:
    if use.slot:
        before = hosts.diary
        hosts.start().ends_well()
        assert hosts.diary == before  # this one counts as done
        hosts.set_clock(NOON + number * use.slot)


@pytest.mark.parametrize("url", ["file"], indirect=True)
def test_a_use_without_its_lock_is_noticed(url: str, tmp_path: Path) -> None:
    cron = Place("docs/recipes.md", "a-cron-job-that-never-overlaps-itself")
    naive = Use(lay=lambda _hosts, _text: ["job"])
    with pytest.raises(AssertionError, match="two are in the middle"):
        bears_two_kills(naive, cron, url, tmp_path)
