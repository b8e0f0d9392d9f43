"""How a number is written: with as many digits as mean something."""

from __future__ import annotations

Cell = str | int | float | None


def shown(cell: Cell) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, str):
        return cell
    if isinstance(cell, int) or abs(cell) >= 1000:
        return f"{cell:,.0f}"
    if abs(cell) >= 100:
        return f"{cell:.0f}"
    return f"{cell:.3g}" if abs(cell) < 10 else f"{cell:.1f}"
