"""Whoever asks gets in, renews and leaves by a few statements, however many others come and go.

A slow client's statements are far apart: before each of them, quick ones enter and leave. So the
row is another one each time, and whatever was decided by reading it is out of date when it is
written.
Rounds are counted, not seconds.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from locknut.backends.sql.row_changes import RowChanges
from locknut.core.ports import Engine
from locknut.core.values import Claim, Granted, Mode, Renewal
from locknut.runtimes.threads import ThreadRuntime, run
from locknut.urls import open_engine
from tests.backends.sql.local_engine import LocalEngine, LocalPlace
from tests.servers.databases import Database

ENGINES = [
    "reference",
    pytest.param("sqlite", marks=pytest.mark.sqlite),
    pytest.param("postgresql", marks=pytest.mark.postgresql),
    pytest.param("mariadb", marks=pytest.mark.mariadb),
    pytest.param("mysql", marks=pytest.mark.mysql),
]
KINDS: dict[str, dict[str, Any]] = {
    "readers": {"mode": Mode.SHARED},
    "permits": {"mode": Mode.PERMIT, "permits": 5},
    "owners": {"owner": "ann"},
}
TOGETHER = 3
"""So many quick ones hold at a time."""


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Engine:
    if request.param == "reference":
        return LocalEngine(LocalPlace())
    if request.param == "sqlite":
        return open_engine(f"sqlite:///{tmp_path}/locks.db")[0]
    database: Database = request.getfixturevalue(f"{request.param}_database")
    return open_engine(database.url)[0]


class Crowd:
    """Quick ones: each time they are let go, one enters, and the one that holds longest leaves."""

    def __init__(self, backend: Any, numbers: Iterator[int], facts: dict[str, Any]):
        self._backend = backend
        self._numbers = numbers
        self._facts = facts
        self._inside: list[Claim] = []

    def move(self) -> None:
        if len(self._inside) == TOGETHER:
            assert run(self._backend.release(self._inside.pop(0)))
        claim = _claim(next(self._numbers), self._facts)
        assert isinstance(run(self._backend.attempt(claim, 0.0)), Granted)
        self._inside.append(claim)


class Disturbed:
    """A table whose statements take so long that a crowd moves before each of them."""

    def __init__(self, table: Any, move: Callable[[], None]):
        self._table = table
        self._move = move
        self.sent: list[str] = []

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        async def send(*said: Any) -> Any:
            self.sent.append(name)
            self._move()
            return await getattr(self._table, name)(*said)

        return send


def _claim(number: int, facts: dict[str, Any]) -> Claim:
    return Claim("a:x", f"{number:032x}", 60.0)._replace(**facts)


class Slow:
    """A slow client beside a crowd of its own kind; `rounds` is what its last verb sent."""

    def __init__(self, engine: Engine, facts: dict[str, Any]):
        runtime = ThreadRuntime()
        quick, slow = (cast("Any", engine.blocking(runtime)) for _ in range(2))
        self.quick, self.backend = quick, slow
        self.numbers = iter(range(1, 10_000))
        self.crowd = Crowd(self.quick, self.numbers, facts)
        for _ in range(TOGETHER):
            self.crowd.move()
        table: Any = Disturbed(self.backend._table, self.crowd.move)
        self._sent = table.sent
        self.backend._table = table
        self.backend._rows = RowChanges("slow", table, self.backend._bells, runtime)

    def claim(self, facts: dict[str, Any]) -> Claim:
        return _claim(next(self.numbers), facts)

    def rounds(self) -> list[str]:
        sent = list(self._sent)
        self._sent.clear()
        return sent


@pytest.fixture
def slow(engine: Engine, request: pytest.FixtureRequest) -> Iterator[Slow]:
    made = Slow(engine, KINDS[request.param])
    yield made
    run(made.quick.close())
    run(made.backend._table._table.close())
    run(made.backend._bells.close())


EACH_KIND = pytest.mark.parametrize(("slow", "kind"), [(k, k) for k in KINDS], indirect=["slow"])


@EACH_KIND
def test_a_slow_one_enters_renews_and_leaves_by_one_statement_each(slow: Slow, kind: str) -> None:
    mine = [slow.claim(KINDS[kind]) for _ in range(2)]
    for claim in mine:
        assert isinstance(run(slow.backend.attempt(claim, 0.0)), Granted)
        assert slow.rounds() == ["take"]
    assert run(slow.backend.renew(mine)) == [Renewal.HELD, Renewal.HELD]
    assert slow.rounds() == ["extend"]
    assert run(slow.backend.release(mine[0]))
    assert slow.rounds() == ["give_back"]
    assert run(slow.backend.release_all(mine[1:])) == [True]
    assert slow.rounds() == ["give_back"]


@EACH_KIND
def test_so_does_one_that_wants_several_keys(slow: Slow, kind: str) -> None:
    mine = [slow.claim(KINDS[kind]), slow.claim(KINDS[kind])._replace(key="a:y")]
    assert isinstance(run(slow.backend.attempt_all(mine)), list)
    assert slow.rounds() == ["take_all"]


@pytest.mark.parametrize("slow", ["permits"], indirect=True)
def test_what_has_run_out_keeps_a_slow_one_out_for_one_round(slow: Slow) -> None:
    """A statement counts it until it is swept; the crowd comes and goes meanwhile."""
    facts = KINDS["permits"]
    for _ in range(facts["permits"] - TOGETHER):
        dead = slow.claim(facts)._replace(ttl=0.000001)
        assert isinstance(run(slow.quick.attempt(dead, 0.0)), Granted)
    assert isinstance(run(slow.backend.attempt(slow.claim(facts), 0.0)), Granted)
    assert slow.rounds() == ["take", "sweep", "take"]
