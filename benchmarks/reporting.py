"""What a run says: a table per workload with its targets, and all of it as JSON."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from benchmarks import measuring
from benchmarks.kinds import Field
from benchmarks.numbers import Cell, shown


@dataclass(frozen=True)
class Target:
    """One promise of the project beside what this run measured."""

    what: str
    measured: float
    wanted: float
    at_least: bool = True

    @property
    def met(self) -> bool:
        return self.measured >= self.wanted if self.at_least else self.measured <= self.wanted

    def __str__(self) -> str:
        verdict = "pass" if self.met else "MISS"
        wanted = f"{'>=' if self.at_least else '<='} {shown(self.wanted)}"
        return f"{verdict}  {self.what}: {shown(self.measured)} (target {wanted})"


class Drawing(Protocol):
    """A chart of any kind."""

    name: str
    """Becomes the file's."""
    title: str

    def svg(self) -> str: ...


@dataclass
class Table:
    """One workload's numbers."""

    title: str
    columns: Sequence[str]
    rows: list[Sequence[Cell]] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    charts: list[Drawing] = field(default_factory=list)
    measured: dict[str, Any] = field(default_factory=dict)
    """All that was measured, where a page is made of more than the rows."""

    def add(self, *cells: Cell) -> None:
        self.rows.append(cells)

    def aim(self, what: str, measured: float, wanted: float, *, at_least: bool = True) -> None:
        self.targets.append(Target(what, measured, wanted, at_least))

    def aim_beside(
        self,
        seconds: Mapping[str, Sequence[float]],
        one: str,
        other: str,
        wanted: float,
        where: str = "",
    ) -> None:
        """Times as fast as a peer; if that one is not here, the target is named as not checked."""
        what = f"{where}{one}, times as fast as {other}"
        if other in seconds:
            self.aim(what, measuring.ratio(seconds[other], seconds[one]), wanted)
        else:
            self.notes.append(f"not checked: {what} (target >= {shown(wanted)})")

    def tell(self, field: Field) -> None:
        """Who took part in which version, and who did not."""
        self.notes += field.notes
        self.versions |= field.versions()

    def __str__(self) -> str:
        lines = [list(self.columns), *([shown(cell) for cell in row] for row in self.rows)]
        widths = [max(len(line[i]) for line in lines) for i in range(len(self.columns))]
        text = [self.title, "-" * len(self.title)]
        for line in lines:
            first, *rest = zip(line, widths, strict=True)
            text.append("  ".join([first[0].ljust(first[1]), *(c.rjust(w) for c, w in rest)]))
        text += [f"  {note}" for note in dict.fromkeys(self.notes)]
        return "\n".join([*text, *map(str, self.targets), ""])

    def as_data(self) -> dict[str, Any]:
        targets = [{**vars(target), "met": target.met} for target in self.targets]
        return {
            "title": self.title,
            "columns": list(self.columns),
            "rows": [list(row) for row in self.rows],
            "targets": targets,
            "notes": list(dict.fromkeys(self.notes)),
            "versions": dict(sorted(self.versions.items())),
            "charts": [vars(chart) for chart in self.charts],
            **({"measured": self.measured} if self.measured else {}),
        }


def circumstances() -> dict[str, Any]:
    """When and where, because numbers without that mean nothing."""
    return {
        "date": time.strftime("%Y-%m-%d %H:%M:%S"),
        "python": sys.version.split()[0],
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processor": _processor(),
        "cores": os.cpu_count(),
        "load": " ".join(f"{each:.2f}" for each in os.getloadavg()),
        "commit": _commit(),
    }


def _commit() -> str:
    """Of this tree, with a star if there is more in it; a tree from an archive has none."""
    git = shutil.which("git")
    if git is None:
        return "unknown"
    asked = subprocess.run(
        [git, "describe", "--always", "--dirty=*"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return asked.stdout.strip() or "unknown"


def _processor() -> str:
    """As the kernel calls it, where it does."""
    told = Path("/proc/cpuinfo")
    lines = told.read_text().splitlines() if told.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or "unknown"


def write_json(path: Path, tables: dict[str, Table], before: dict[str, Any]) -> None:
    data = {
        "before": before,
        "after": circumstances(),
        "workloads": {name: table.as_data() for name, table in tables.items()},
    }
    path.write_text(json.dumps(data, indent=1) + "\n")
