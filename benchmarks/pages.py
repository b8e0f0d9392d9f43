"""A run becomes pages: one per engine with its charts, made from the data that is kept beside them.

Each workload says when and where it was measured, so one of them can be measured anew without the
others: `<engine>.json` keeps what was there, and the page is written from it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import capacity_page, fitting
from benchmarks.numbers import Cell, shown
from benchmarks.reporting import Table

SCALE = "scale"
KEPT = Path(__file__).resolve().parent.parent / "docs" / "benchmarks"
"""Where the project keeps its own numbers."""


def write(folder: Path, name: str, table: Table, circumstances: dict[str, Any]) -> Path:
    """Add one workload to its engine's page, in the place of what it said before."""
    folder.mkdir(parents=True, exist_ok=True)
    engine = name.partition(".")[0]
    data = folder / f"{engine}.json"
    kept: dict[str, Any] = json.loads(data.read_text()) if data.exists() else {}
    kept[name] = {**table.as_data(), "circumstances": circumstances}
    data.write_text(json.dumps(kept, indent=1) + "\n")
    for chart in table.charts:
        (folder / f"{name}.{chart.name}.svg").write_text(chart.svg())
    if engine == SCALE:
        return _capacity(folder, kept)
    page = folder / f"{engine}.md"
    page.write_text("\n".join(_page(engine, kept)) + "\n")
    return page


def _capacity(folder: Path, kept: dict[str, Any]) -> Path:
    """All engines on one page, among those for operators; and what the calculator reads."""
    page = folder.parent / "operations" / "capacity.md"
    page.parent.mkdir(exist_ok=True)
    page.write_text(capacity_page.page(kept))
    fitting.write(kept, fitting.COSTS if folder.resolve() == KEPT else folder / "costs.json")
    return page


def _page(engine: str, kept: dict[str, Any]) -> Iterator[str]:
    targets = [target for said in kept.values() for target in said["targets"]]
    met = sum(target["met"] for target in targets)
    yield f"# `{engine}`: what was measured"
    yield ""
    yield (
        "Written by `make bench`, not by hand; how to read it is in [README.md](README.md). "
        f"{met} of {len(targets)} targets were met."
    )
    for name, said in kept.items():
        yield ""
        yield f"## {said['title']}"
        yield ""
        yield from _charts(name, said)
        yield from _table(said)
        yield from _targets(said["targets"])
        yield from (f"* {note}" for note in said["notes"])
        if said["notes"]:
            yield ""
        yield _when(said)


def _charts(name: str, said: dict[str, Any]) -> Iterator[str]:
    for chart in said["charts"]:
        yield f"![{chart['title']}]({name}.{chart['name']}.svg)"
        yield ""


def _table(said: dict[str, Any]) -> Iterator[str]:
    columns = said["columns"]
    yield f"| {' | '.join(columns)} |"
    yield "|---" * len(columns) + "|"
    for row in said["rows"]:
        yield f"| {' | '.join(_cell(cell) for cell in row)} |"
    yield ""


def _cell(cell: Cell) -> str:
    return shown(cell).replace("|", "\\|")


def _targets(targets: list[dict[str, Any]]) -> Iterator[str]:
    if not targets:
        return
    yield "| target | wanted | measured | |"
    yield "|---|---|---|---|"
    for target in targets:
        sign = ">=" if target["at_least"] else "<="
        verdict = "met" if target["met"] else "**missed**"
        wanted, measured = shown(target["wanted"]), shown(target["measured"])
        yield f"| {target['what']} | {sign} {wanted} | {measured} | {verdict} |"
    yield ""


def _when(said: dict[str, Any]) -> str:
    here = said["circumstances"]
    versions = [f"{name} {number}" for name, number in said["versions"].items()]
    said_here = [f"{key} {value}" for key, value in here.items() if key != "date"]
    return f"Measured {here['date']}: {', '.join([*said_here, *versions])}."
