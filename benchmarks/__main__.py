"""The command line: `python -m benchmarks [--quick] [--report FOLDER] [WORKLOAD ...]`."""

from __future__ import annotations

import argparse
import importlib
import sys
import time
import traceback
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))  # this tree, whatever else is installed

from benchmarks import pages, reporting  # noqa: E402  # after the path is set
from benchmarks.plan import FULL, QUICK, SMOKE, Plan  # noqa: E402  # the same
from benchmarks.workloads import WORKLOADS  # noqa: E402  # the same


def main() -> int:
    """Nought when every target was met."""
    options = _options()
    before = reporting.circumstances()
    print(", ".join(f"{key} {value}" for key, value in before.items()), end="\n\n", flush=True)
    tables: dict[str, reporting.Table] = {}
    left_out: list[str] = []
    for name in _chosen(options.workloads):
        began, now = time.monotonic(), reporting.circumstances()
        try:
            tables[name] = measure(name, options.plan)
        except Exception as problem:  # noqa: BLE001  # one that breaks does not cost the others
            traceback.print_exc()
            left_out.append(f"{name}: {type(problem).__name__}: {problem}")
            continue
        print(tables[name], f"({time.monotonic() - began:.0f} s)\n", sep="", flush=True)
        if options.json is not None:
            reporting.write_json(options.json, tables, before)
        if options.report is not None:
            how_much = {"plan": options.plan.name}
            pages.write(options.report, name, tables[name], {**now, **how_much})
    missed = [target for table in tables.values() for target in table.targets if not target.met]
    total = sum(len(table.targets) for table in tables.values())
    if len(tables) > 1:
        print(f"{total - len(missed)} of {total} targets met")
        for target in missed:
            print(f"  {target}")
    for line in left_out:
        print(f"NOT MEASURED  {line}")
    return 1 if missed or left_out else 0


def measure(name: str, plan: Plan) -> reporting.Table:
    file, _, of_engine = WORKLOADS[name].partition(":")
    module = importlib.import_module(f"benchmarks.workloads.{file}")
    table: reporting.Table = module.measure(plan, *([of_engine] if of_engine else []))
    return table


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m benchmarks", description=__doc__)
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD", help=", ".join(WORKLOADS))
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything there as well")
    parser.add_argument("--report", type=Path, metavar="FOLDER", help="tables and charts, as pages")
    parser.add_argument(
        "--quick",
        dest="plan",
        action="store_const",
        const=QUICK,
        default=FULL,
        help="a fifth or so",
    )
    parser.add_argument(
        "--smoke", dest="plan", action="store_const", const=SMOKE, help="only to see that it runs"
    )
    options = parser.parse_args()
    unknown = [each for each in options.workloads if not _matching(each)]
    if unknown:
        parser.error(f"no workload is called {unknown[0]!r}; there are: {', '.join(WORKLOADS)}")
    return options


def _matching(asked: str) -> list[str]:
    """`core` stands for all of `core.*`."""
    return [name for name in WORKLOADS if name == asked or name.startswith(f"{asked}.")]


def _chosen(asked: list[str]) -> list[str]:
    found = [name for each in asked for name in _matching(each)]
    return list(dict.fromkeys(found)) or list(WORKLOADS)


if __name__ == "__main__":
    sys.exit(main())
