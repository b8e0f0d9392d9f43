"""The table of `locknut top` shows what it is told, whether it is filled anew or only changed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest
from rich.cells import cell_len
from textual.app import App, ComposeResult
from textual.pilot import Pilot

from locknut.terminal.rows_table import FEW, RowsTable
from locknut.terminal.table_rows import Row

COLUMNS = ("LOCK", "SINCE")
Steps = Callable[[Pilot[None], RowsTable], Awaitable[None]]


class OneTable(App[None]):
    """Nothing but the table."""

    def compose(self) -> ComposeResult:
        yield RowsTable()


def drive(steps: Steps) -> None:
    async def run() -> None:
        app = OneTable()
        async with app.run_test(size=(60, 20)) as pilot:
            await steps(pilot, app.query_one(RowsTable))

    asyncio.run(asyncio.wait_for(run(), 110.0))


def shown(table: RowsTable) -> list[tuple[tuple[str, ...], str]]:
    rows = [table.get_row_at(at) for at in range(table.row_count)]
    return [(tuple(map(str, row)), str(row[0].style)) for row in rows]


def told(rows: list[Row]) -> list[tuple[tuple[str, ...], str]]:
    return [(row.cells, row.style) for row in rows]


def test_whatever_comes_and_goes_it_shows_what_it_is_told() -> None:
    chance = random.Random(7)

    def some() -> list[Row]:
        number = chance.choice((0, 1, 5, 6, 7, FEW + 10))
        return [
            Row((f"lock-{at}", "x" * chance.randint(1, 9)), style=chance.choice(("", "red")))
            for at in range(number)
        ]

    async def steps(pilot: Pilot[None], table: RowsTable) -> None:
        for number in range(60):
            columns = COLUMNS if number % 10 else ("WHO", "FOR")
            rows = some()
            table.tell(columns, rows)
            assert shown(table) == told(rows)
            if number % 5 == 0:
                await pilot.pause()
            room = [column.content_width for column in table.ordered_columns]
            for row in rows:
                assert all(cell_len(c) <= r for c, r in zip(row.cells, room, strict=True))

    drive(steps)


def test_no_cell_writes_to_the_terminal() -> None:
    async def steps(_: Pilot[None], table: RowsTable) -> None:
        for cell in ("a\x1b]0;x\x07", "b\x9b2J"):
            table.tell(COLUMNS, [Row((cell, cell))])
            ((cells, _style),) = shown(table)
            assert all(each.isprintable() and "\\x" in each for each in cells)

    drive(steps)


def test_a_redraw_changes_only_what_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    changed: list[tuple[object, object]] = []
    filled: list[bool] = []
    change, clear = RowsTable.update_cell, RowsTable.clear

    def update_cell(self: RowsTable, row: str, column: str, value: object) -> None:
        changed.append((row, column))
        change(self, row, column, value)  # type: ignore[arg-type]

    def cleared(self: RowsTable, columns: bool = False) -> RowsTable:
        filled.append(columns)
        return clear(self, columns)

    monkeypatch.setattr(RowsTable, "update_cell", update_cell)
    monkeypatch.setattr(RowsTable, "clear", cleared)

    async def steps(_: Pilot[None], table: RowsTable) -> None:
        table.tell(COLUMNS, [Row(("a", "1.5s")), Row(("b", "2s"))])
        assert (filled, changed) == ([True], [])
        table.tell(COLUMNS, [Row(("a", "1.6s")), Row(("b", "2s"))])
        assert (filled, changed) == ([True], [("0", "1")])
        table.tell(COLUMNS, [Row(("a", "1.6s")), Row(("b", "2s"), style="red"), Row(("c", "1s"))])
        assert (filled, changed[1:]) == ([True], [("1", "0"), ("1", "1")])
        table.tell(COLUMNS, [Row(("a", "1m10.5s"))])
        assert filled == [True, True], "a column has to grow"

    drive(steps)
