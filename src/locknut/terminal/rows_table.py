"""The table of `locknut top`: a new picture changes the cells that differ, and nothing else.

To fill a table anew costs more than all else of a redraw: each of its cells is measured, also those
that nobody sees. So that is done only where a column has to grow, or much has come or gone.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.text import Text
from textual.widgets import DataTable

from locknut.cli.messages import plain
from locknut.terminal.table_rows import Row

FEW = 20
"""So many rows may come or go at the end without the table being filled anew."""


class RowsTable(DataTable[Text]):
    """Columns and rows are known by their numbers, as texts."""

    def __init__(self) -> None:
        super().__init__(id="table", cursor_type="row", zebra_stripes=True)
        self._told_columns: tuple[str, ...] = ()
        self._told: Sequence[Row] = ()
        self._room: list[int] = []
        """Letters that each column has room for."""

    def tell(self, columns: tuple[str, ...], rows: Sequence[Row]) -> None:
        """Show these instead of the last ones."""
        # What others wrote may be in any cell, and nothing else keeps it from the terminal.
        rows = [row._replace(cells=tuple(map(plain, row.cells))) for row in rows]
        needed = [max(map(cell_len, column)) for column in zip(columns, *_cells(rows), strict=True)]
        fits = columns == self._told_columns and all(
            length <= room for length, room in zip(needed, self._room, strict=True)
        )
        if fits and abs(len(rows) - len(self._told)) <= FEW:
            self._change(rows)
        else:
            self._fill(columns, rows)
            self._room = needed
            # The table would find it out by itself, after it was on the screen without.
            for column, room in zip(self.ordered_columns, needed, strict=True):
                column.content_width = room
        self._told_columns, self._told = columns, rows

    def _fill(self, columns: tuple[str, ...], rows: Sequence[Row]) -> None:
        self.clear(columns=True)
        for number, title in enumerate(columns):
            self.add_column(title, key=str(number))
        for number, row in enumerate(rows):
            self._add(number, row)

    def _add(self, number: int, row: Row) -> None:
        self.add_row(*(Text(cell, style=row.style) for cell in row.cells), key=str(number))

    def _change(self, rows: Sequence[Row]) -> None:
        for number, (old, new) in enumerate(zip(self._told, rows, strict=False)):
            restyled = old.style != new.style
            for column, cell in enumerate(new.cells):
                if restyled or cell != old.cells[column]:
                    self.update_cell(str(number), str(column), Text(cell, style=new.style))
        for number in reversed(range(len(rows), len(self._told))):
            self.remove_row(str(number))
        for number in range(len(self._told), len(rows)):
            self._add(number, rows[number])


def _cells(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    return [row.cells for row in rows]
