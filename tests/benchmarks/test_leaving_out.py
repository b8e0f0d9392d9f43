"""Who cannot take part is left out by name, never silently; what must not fail is not excused."""

from __future__ import annotations

import pytest

from benchmarks import contending, kinds
from benchmarks.crews import Member
from benchmarks.kinds import Field, Kind, Opened, Pair
from benchmarks.reporting import Table


def _broken(place: str) -> Opened:
    raise OSError(f"nobody at {place}")


def _taken_by_all(place: str) -> Opened:
    """No lock at all."""
    return lambda name: Pair(lambda: None, lambda: None)


BARE = Kind(_taken_by_all)


def test_what_is_not_installed_is_named_in_the_report() -> None:
    field = Field(
        {"bare": BARE, "absent": Kind(_broken, module="no_such_module")}, ("bare", "absent")
    )
    table = Table("title", ("", "figure"))
    table.tell(field)

    assert list(field) == ["bare"]
    assert "no_such_module is not installed: absent is left out" in str(table)


def test_a_target_beside_somebody_who_is_absent_is_named_as_not_checked() -> None:
    table = Table("title", ("", "figure"))
    table.aim_beside({"locknut": [1.0]}, "locknut", "absent", 3.0)

    assert not table.targets
    assert "not checked: locknut, times as fast as absent (target >= 3)" in str(table)


def test_a_peer_that_fails_in_the_middle_is_left_out_and_the_others_go_on() -> None:
    field = Field({"bare": BARE, "peer": BARE}, ("bare", "peer"))
    ran: list[str] = []

    def run(name: str) -> float:
        ran.append(name)
        if name == "peer" and ran.count("peer") == 2:
            raise ValueError("out of order")
        return 1.0

    found = field.race(run, 4, seed=1)

    assert found == {"bare": [1.0] * 4}
    assert ran.count("peer") == 2
    assert field.notes == ["peer failed and is left out: ValueError: out of order"]


@pytest.mark.parametrize("name", ["bare", "locknut", "locknut.aio, uvloop"])
def test_the_limit_and_locknut_may_not_fail(name: str) -> None:
    field = Field({name: BARE}, (name,))
    with pytest.raises(OSError, match="nobody"):
        field.race(lambda _: _broken("place"), 1, seed=1)


def test_the_error_of_a_process_of_a_crew_is_told() -> None:
    async def role(lock: object) -> None: ...

    with pytest.raises(RuntimeError, match="OSError: nobody at home"):
        Member(Kind(_broken), "home", role).results()


def test_a_crew_that_cannot_open_its_lock_is_not_waited_for() -> None:
    with pytest.raises(RuntimeError, match="OSError: nobody at home"):
        contending.contend(Kind(_broken), "home", "processes", 2, 0.05)


def test_two_inside_at_once_are_noticed() -> None:
    with pytest.raises(AssertionError, match="two were inside at once"):
        contending.contend(Kind(_taken_by_all), "", "processes", 8, 1.0)


def test_every_engine_lists_its_kinds_and_a_limit() -> None:
    for engine in ("file", "redis"):
        listed = kinds.kinds_of(engine)
        assert any(kinds.bare(name) for name in listed)
        assert any(kinds.ours(name) for name in listed)
