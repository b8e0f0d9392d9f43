"""Runs the tests: `make test` what every change must pass, `make test-all` what that leaves out.

    python3 scripts/run_tests.py                  all but what takes long, on the main CPython
    python3 scripts/run_tests.py --rest           what takes long or needs root, and other CPythons
    python3 scripts/run_tests.py tests/guards -x  these, whatever they take: pytest's own arguments
    python3 scripts/run_tests.py --coverage       the first, and whether enough of the package ran

The contract of the engines (tests/conformance) mostly waits, and everything else mostly computes.
So they run side by side, each with workers of its own: one after the other they would leave half
of the machine unused, and then overload it.

What fails among many workers, and is little, is run once more by itself, and named in the end: on a
busy machine a test may get too little time. It is to be looked at all the same.

The servers that the tests need are fetched meanwhile (scripts/fetch_servers.py); in CI a server
that cannot be had is a failure. With LOCKNUT_PYTHONS=main no other CPython is used.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from pythons import Interpreter, all_pythons, main_python
from setup import ROOT, prepare

SHORT_LIST = [
    "tests/core",
    "tests/api",
    *(f"tests/conformance/test_{engine}.py" for engine in ("memory", "file", "redis", "zookeeper")),
]
"""What depends on the interpreter most: the algorithm, the contract, and the two faces."""
QUICK = ["-m", "not slow and not root"]
REST = ["-m", "slow or root"]
MEMORY = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
ROOM_FOR = 10 if MEMORY > 12 else 6 if MEMORY > 9 else 4
WORKERS = int(os.environ.get("LOCKNUT_TEST_WORKERS") or ROOM_FOR)
"""Files of tests that run at once, each with servers of its own: ten of them took 8.5 GB. Half of
them are of what waits."""
WAITING = "tests/conformance"
"""What mostly waits: it leaves nine tenths of a processor unused."""
FEW = 20
"""As many failures may be the machine's fault; more are not."""
TESTS_FAILED = 1
"""What pytest ends with then, and with nothing else: see tests/conftest.py for skipped engines."""
CACHE = ".pytest_cache/whole"
"""Where a whole run notes what failed; a developer's own `--last-failed` has another place."""


def main() -> int:
    """Return 0 if every run passed."""
    arguments = sys.argv[1:]
    chosen = main_python()
    fetching = _Fetching()
    interpreter = str(prepare(ROOT / ".venv", ["dev"], chosen, as_soon_as_made=fetching.begin))
    fetching.begin(Path(interpreter))
    if arguments in ([], ["--rest"]):
        _compile(interpreter)
    if not fetching.had_all() and os.environ.get("CI"):
        return 1
    others = _others(chosen)
    if arguments[:1] == ["--rest"]:
        return 0 if _rest(chosen, interpreter, others, arguments[1:]) else 1
    print(f"\nCPython {chosen}", flush=True)
    if arguments[:1] == ["--coverage"]:
        return 0 if _covered(interpreter, arguments[1:]) else 1
    good = _pytest([interpreter], arguments) if arguments else _whole([interpreter], QUICK)
    if not arguments:
        versions = "".join(f", CPython {other}" for other in others)
        adds = "the whole contract on every kind of server, crowds, storms and soaks that take long"
        print(f"\n`make test-all` adds {adds}{versions}", flush=True)
    return 0 if good else 1


def _rest(
    chosen: Interpreter, interpreter: str, others: list[Interpreter], arguments: list[str]
) -> bool:
    """Whether everything passed; the others go first, so that the main summary comes last."""
    passed = _short_runs(others)
    print(f"\nCPython {chosen}: what takes long or needs root", flush=True)
    python = [interpreter]
    good = _pytest(python, [*REST, *arguments]) if arguments else _whole(python, REST)
    if passed:
        told = [f"{version} {'passed' if well else 'FAILED'}" for version, well in passed.items()]
        print(f"\nThe short list: {', '.join(told)}", flush=True)
    return good and all(passed.values())


def _others(chosen: Interpreter) -> list[Interpreter]:
    everybody = [] if os.environ.get("LOCKNUT_PYTHONS") == "main" else all_pythons()
    return [one for one in everybody if one.short != chosen.short]


class _Fetching:
    """The servers are fetched beside all else that is set up: both mostly wait for the network."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def begin(self, interpreter: Path) -> None:
        """By the environment's interpreter, which has a pip as soon as it is there."""
        if self._process is None:
            command = [str(interpreter), str(ROOT / "scripts" / "fetch_servers.py")]
            self._process = subprocess.Popen(command)

    def had_all(self) -> bool:
        return self._process is not None and self._process.wait() == 0


def _compile(interpreter: str) -> None:
    """All tests, the first time: or else every worker does it by itself."""
    if any((ROOT / "tests").glob("core/__pycache__/*-pytest-*")):
        return
    command = [interpreter, "-m", "pytest", "--collect-only", "-qq"]
    collecting = [
        subprocess.Popen(
            [*command, *part.paths], cwd=ROOT, env=_environment(), stdout=subprocess.DEVNULL
        )
        for part in _parts(["tests"])
    ]
    for each in collecting:
        each.wait()


def _short_runs(others: Sequence[Interpreter]) -> dict[str, bool]:
    """Whether the short list passed, by interpreter."""
    with ThreadPoolExecutor() as together:  # each waits for the network most of the time
        ready = list(together.map(_prepared, others))
    passed: dict[str, bool] = {}
    for other, interpreter in zip(others, ready, strict=True):
        if interpreter is None:  # without CI it is only told
            passed[str(other)] = not os.environ.get("CI")
            continue
        chosen = [each for each in SHORT_LIST if (ROOT / each).exists()]
        print(f"\nCPython {other}: {' '.join(chosen)}", flush=True)
        passed[str(other)] = _whole([interpreter], ["-q", *QUICK], chosen)
    return passed


def _prepared(python: Interpreter) -> str | None:
    """An environment for this one; None if it cannot make any."""
    try:
        return str(prepare(ROOT / f".venv-{python.short}", ["test"], python))
    except SystemExit as problem:
        print(f"Not tested on CPython {python}: {problem}", flush=True)
        return None


def _covered(interpreter: str, arguments: list[str]) -> bool:
    """Whether all passed, and ran as much as pyproject.toml says; for a part there is no floor."""
    coverage = [interpreter, "-m", "coverage"]
    subprocess.run([*coverage, "erase"], cwd=ROOT, check=True)
    python = [*coverage, "run"]
    good = _pytest(python, arguments) if arguments else _whole(python, QUICK)
    subprocess.run([*coverage, "combine", "--quiet"], cwd=ROOT, check=True)
    floor = ["--fail-under=0"] if arguments else []
    return (
        subprocess.run([*coverage, "report", *floor], cwd=ROOT, check=False).returncode == 0
        and good
    )


class _Part(NamedTuple):
    """Of the tests: it has workers of its own, and notes by itself what failed."""

    name: str
    paths: list[str]
    workers: int

    @property
    def noted(self) -> Path:
        return ROOT / CACHE / self.name

    def failed(self) -> list[str]:
        found = self.noted / "v" / "cache" / "lastfailed"
        return sorted(json.loads(found.read_text())) if found.exists() else []

    def command(self, python: Sequence[str], arguments: Iterable[str]) -> list[str]:
        noted = f"cache_dir={self.noted}"
        return [*python, "-m", "pytest", "-o", noted, *arguments, *self.paths]

    def among_others(self, python: Sequence[str], arguments: Iterable[str]) -> list[str]:
        crowd = ["-n", str(self.workers), "--dist", "loadfile", "--cache-clear"]
        return self.command(python, [*crowd, *arguments])


def _parts(paths: Sequence[str]) -> list[_Part]:
    """What computes, and beside it what waits."""
    waiting = [each for each in paths if each.startswith(WAITING)]
    others = [each for each in paths if each not in waiting]
    if "tests" in paths and (ROOT / WAITING).exists():
        waiting.append(WAITING)
        others.append(f"--ignore={WAITING}")
    if not (waiting and others):
        return [_Part("all", list(paths), WORKERS)]
    half = max(1, WORKERS // 2)
    return [_Part("others", others, max(1, WORKERS - half)), _Part("contract", waiting, half)]


def _whole(
    python: Sequence[str], arguments: Sequence[str], paths: Sequence[str] = ("tests",)
) -> bool:
    """Whether all passed; what failed among the others may try again alone."""
    parts = _parts(paths)
    commands = [each.among_others(python, arguments) for each in parts]
    codes = _side_by_side(commands)
    pairs = list(zip(parts, codes, strict=True))
    failed = [test for part, code in pairs if code for test in part.failed()]
    if not 0 < len(failed) <= FEW or not set(codes) <= {0, TESTS_FAILED}:
        return not any(codes)
    print("\nWhat failed among the others is run again, alone", flush=True)
    again = [
        _run(part.command(python, ["--last-failed", *arguments])) for part, code in pairs if code
    ]
    if any(again):
        return False
    print("\nPassed alone only, so look at them: too little time, or a race", flush=True)
    print(*failed, sep="\n", flush=True)
    return True


def _side_by_side(commands: Sequence[list[str]]) -> list[int]:
    """Run them at once; the first one shows what it does, then the others show what they did."""
    first, *others = commands
    with tempfile.TemporaryDirectory() as folder:
        shown = [Path(folder, str(at)) for at in range(len(others))]
        with _beside(others, shown) as processes:
            codes = [_run(first)]
            for process, output in zip(processes, shown, strict=True):
                codes.append(process.wait())
                with output.open() as told:
                    shutil.copyfileobj(told, sys.stdout)
    sys.stdout.flush()
    return codes


@contextmanager
def _beside(
    commands: Sequence[list[str]], shown: Sequence[Path]
) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Each of them writes into a file of its own; none is left behind."""
    started: list[subprocess.Popen[bytes]] = []
    try:
        for command, output in zip(commands, shown, strict=True):
            with output.open("wb") as told:
                started.append(
                    subprocess.Popen(
                        command, cwd=ROOT, env=_environment(), stdout=told, stderr=told
                    )
                )
        yield started
    finally:
        for each in started:
            if each.poll() is None:
                each.terminate()
                each.wait()


def _run(command: list[str]) -> int:
    return subprocess.run(command, cwd=ROOT, env=_environment(), check=False).returncode


def _pytest(python: list[str], arguments: list[str]) -> bool:
    crowd = ["-n", str(min(WORKERS, 6)), "--dist", "loadfile"]
    return _run([*python, "-m", "pytest", *crowd, *arguments]) == 0


def _environment() -> dict[str, str]:
    # This tree and no other, also for the processes that tests start from a shared environment.
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    # Where a machine is set so, each of a thousand processes would compile the package again.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return environment


if __name__ == "__main__":
    sys.exit(main())
