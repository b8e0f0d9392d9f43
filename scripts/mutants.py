"""Puts small wrong changes into a copy of the tree, one at a time, and looks whether a test fails.

    python3 scripts/mutants.py                     all of them (hours)
    python3 scripts/mutants.py core file-break     those whose id begins so
    python3 scripts/mutants.py --list              what there is

The tables are in `tests/mutants`. The test that failed has to pass once the change is taken out.
Nought if every change was noticed.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from py_compile import PycInvalidationMode
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.mutants import Mutant, load  # noqa: E402  # after the path is set

LEFT_BEHIND = (".git", ".venv*", ".servers", ".*_cache", ".hypothesis", "__pycache__", "build")
KILLED, SURVIVED, LATE, UNJUDGED = "killed", "SURVIVED", "LATE", "not judged"
_running: set[int] = set()
"""The process groups of the tests that run, to be ended with us."""


class Verdict(NamedTuple):
    """What became of one mutant."""

    mutant: Mutant
    outcome: str
    """Killed by a failed test, survived, too late to tell, or not judged at all."""
    by: str
    seconds: float


class Trees:
    """Copies of the tree, one for each that works at a time."""

    def __init__(self, folder: Path, count: int) -> None:
        self._free: queue.Queue[Path] = queue.Queue()
        for number in range(count):
            self._free.put(_copy(folder / f"tree{number}"))

    def judge(self, mutant: Mutant, limit: float) -> Verdict:
        """Put it in, run its tests, take it out, and run the one that failed once more."""
        tree = self._free.get()
        try:
            if (count := mutant.found_in(tree)) != 1:
                told = f"its text is found {count} times in {mutant.file}"
                return Verdict(mutant, UNJUDGED, told, 0.0)
            place = tree / mutant.file
            text = place.read_text(encoding="utf-8")
            place.write_text(mutant.applied_to(text), encoding="utf-8")
            began = time.monotonic()
            try:
                outcome, by = _run_in_turn(tree, mutant.tests, limit)
            finally:
                place.write_text(text, encoding="utf-8")
            if outcome == KILLED and _run(tree, [by], limit)[0] != SURVIVED:
                outcome, by = UNJUDGED, f"{by} fails without it too"
            return Verdict(mutant, outcome, by, time.monotonic() - began)
        finally:
            self._free.put(tree)


def main(words: Sequence[str]) -> int:
    """Nought if every chosen mutant was killed."""
    options = _parser().parse_args(words)
    chosen = [each for each in load() if _wanted(each, options.ids)]
    if not chosen:
        raise SystemExit(f"no mutant begins with {' or '.join(options.ids)}; --list tells them")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if options.list:
        for each in chosen:
            print(f"{each.id:34} {each.file}: {each.breaks}")
        return 0
    with (
        tempfile.TemporaryDirectory(prefix="mutants-") as folder,
        ThreadPoolExecutor(options.jobs) as pool,
    ):
        Path(folder).chmod(0o755)  # a PostgreSQL of root's tests runs as an ordinary user
        trees = Trees(Path(folder), options.jobs)
        verdicts = []
        try:
            for verdict in pool.map(partial(trees.judge, limit=options.limit), chosen):
                verdicts.append(verdict)
                told = f"{verdict.mutant.id:34} {verdict.outcome:10} {verdict.seconds:5.0f} s"
                print(f"{told}  {verdict.by or verdict.mutant.breaks}", flush=True)
                if options.json is not None:
                    _write(options.json, verdicts)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            _end(*_running)
            raise
    _sum_up(verdicts)
    return 0 if all(verdict.outcome == KILLED for verdict in verdicts) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="See whether the tests notice wrong changes.")
    parser.add_argument("ids", nargs="*", metavar="ID", help="only these, by how they begin")
    parser.add_argument("--jobs", type=int, default=1, help="how many at a time (1)")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds for one (600)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the verdicts there too")
    parser.add_argument("--list", action="store_true", help="only tell what there is")
    return parser


def _wanted(mutant: Mutant, ids: Sequence[str]) -> bool:
    return not ids or any(mutant.id.startswith(each) for each in ids)


def _copy(tree: Path) -> Path:
    """A copy that shares the environment and the servers of this tree."""
    shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(*LEFT_BEHIND), symlinks=True)
    for name in (".venv", ".servers"):
        if (ROOT / name).exists():
            (tree / name).symlink_to(ROOT / name)
    # Bytecode that is checked by the content of its source: a mutant is seen, all else is not
    # compiled anew by each process of each test.
    for name in ("src", "tests"):
        compileall.compile_dir(
            tree / name, quiet=2, invalidation_mode=PycInvalidationMode.CHECKED_HASH
        )
    return tree


def _run_in_turn(tree: Path, tests: Sequence[str], limit: float) -> tuple[str, str]:
    """Single files before whole folders: named together, pytest would begin with the folder."""
    until = time.monotonic() + limit
    files = [each for each in tests if each.endswith(".py")]
    outcome, by = SURVIVED, ""
    for some in (files, [each for each in tests if each not in files]):
        if some and outcome == SURVIVED:
            outcome, by = _run(tree, some, until - time.monotonic())
    return outcome, by


def _run(tree: Path, tests: Sequence[str], limit: float) -> tuple[str, str]:
    """Survived if all passed; killed, by the first that failed."""
    options = ["-x", "-q", "-p", "no:cacheprovider", f"--basetemp={tree}/.tests"]
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", *options, *tests],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": f"{tree}/src", "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    _running.add(process.pid)
    try:
        said, _ = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        return LATE, "no failure within the limit"
    finally:
        _end(process.pid)
        process.communicate()
        _running.discard(process.pid)
    if process.returncode == 0:
        return SURVIVED, ""
    failed = first_failed(said)
    if process.returncode in {1, 2} and failed is not None:
        return KILLED, failed
    return UNJUDGED, f"pytest ended with {process.returncode}: {said[-200:]!r}"


def first_failed(said: str) -> str | None:
    """The test that pytest names in its summary. A line of a log may begin with ERROR as well."""
    found = re.search(r"^(?:FAILED|ERROR) (tests/.+?)(?: - .*)?$", said, re.MULTILINE)
    return found[1] if found else None


def _end(*groups: int) -> None:
    for group in groups:
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)


def _write(place: Path, verdicts: Sequence[Verdict]) -> None:
    facts = [
        {"id": each.mutant.id, "outcome": each.outcome, "by": each.by, "seconds": each.seconds}
        for each in verdicts
    ]
    place.write_text(json.dumps(facts, indent=1))


def _sum_up(verdicts: Sequence[Verdict]) -> None:
    print()
    for part in [*sorted({each.mutant.part for each in verdicts}), "all"]:
        counts = Counter(each.outcome for each in verdicts if part in {each.mutant.part, "all"})
        told = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
        print(f"{part:12} {told}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
