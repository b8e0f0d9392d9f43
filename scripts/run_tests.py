"""Runs the tests: `make test` what every change must pass, `make test-all` what that leaves out.

    python3 scripts/run_tests.py                  all but what takes long, on the main CPython
    python3 scripts/run_tests.py --rest           what takes long or needs root, and other CPythons
    python3 scripts/run_tests.py tests/guards -x  these, whatever they take: pytest's own arguments
    python3 scripts/run_tests.py --coverage       the first, and whether enough of the package ran

What fails among many workers, and is little, is run once more by itself, and named in the end: on a
busy machine a test may get too little time. It is to be looked at all the same.

The servers that the tests need are fetched first (scripts/fetch_servers.py); in CI a server that
cannot be had is a failure. With LOCKNUT_PYTHONS=main no other CPython is used.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

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
WORKERS = os.environ.get("LOCKNUT_TEST_WORKERS", "6" if MEMORY > 9 else "4")
"""Files of tests that run at once, each with servers of its own: most tests wait for something, and
together ten of them took 8.5 GB. More than six on two cores leave many without time."""
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
    interpreter = str(prepare(ROOT / ".venv", ["dev"], chosen))
    with _compiled(interpreter) if arguments in ([], ["--rest"]) else nullcontext():
        fetched = _servers(interpreter)
    if not fetched and os.environ.get("CI"):
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
    passed = {str(other): _short_run(other) for other in others}
    print(f"\nCPython {chosen}: what takes long or needs root", flush=True)
    run = _pytest if arguments else _whole
    good = run([interpreter], [*REST, *arguments])
    if passed:
        told = [f"{version} {'passed' if well else 'FAILED'}" for version, well in passed.items()]
        print(f"\nThe short list: {', '.join(told)}", flush=True)
    return good and all(passed.values())


def _others(chosen: Interpreter) -> list[Interpreter]:
    everybody = [] if os.environ.get("LOCKNUT_PYTHONS") == "main" else all_pythons()
    return [one for one in everybody if one.short != chosen.short]


def _servers(interpreter: str) -> bool:
    """Whether all are there; by the environment's interpreter, which has a pip."""
    command = [interpreter, str(ROOT / "scripts" / "fetch_servers.py")]
    return subprocess.run(command, check=False).returncode == 0


@contextmanager
def _compiled(interpreter: str) -> Iterator[None]:
    """Compile all tests in the meantime, the first time: or else every worker does it by itself."""
    if any((ROOT / "tests").glob("core/__pycache__/*-pytest-*")):
        yield
        return
    command = [interpreter, "-m", "pytest", "--collect-only", "-qq"]
    with subprocess.Popen(command, cwd=ROOT, env=_environment(), stdout=subprocess.DEVNULL):
        yield


def _short_run(python: Interpreter) -> bool:
    """Whether the short list passed; without CI, an interpreter without venv is only told of."""
    try:
        interpreter = prepare(ROOT / f".venv-{python.short}", ["test"], python)
    except SystemExit as problem:
        print(f"Not tested on CPython {python}: {problem}", flush=True)
        return not os.environ.get("CI")
    chosen = [each for each in SHORT_LIST if (ROOT / each).exists()]
    print(f"\nCPython {python}: {' '.join(chosen)}", flush=True)
    return _whole([str(interpreter)], ["-q", *QUICK, *chosen])


def _covered(interpreter: str, arguments: list[str]) -> bool:
    """Whether all passed, and ran as much as pyproject.toml says; for a part there is no floor."""
    coverage = [interpreter, "-m", "coverage"]
    subprocess.run([*coverage, "erase"], cwd=ROOT, check=True)
    good = _pytest([*coverage, "run"], arguments or QUICK)
    subprocess.run([*coverage, "combine", "--quiet"], cwd=ROOT, check=True)
    floor = ["--fail-under=0"] if arguments else []
    return (
        subprocess.run([*coverage, "report", *floor], cwd=ROOT, check=False).returncode == 0
        and good
    )


def _whole(python: list[str], arguments: list[str]) -> bool:
    """Whether all passed; what failed among the others may try again alone."""
    noted = ["-o", f"cache_dir={CACHE}"]
    crowd = ["-n", WORKERS, "--dist", "loadfile", "--cache-clear", *noted, *arguments]
    code = _code(python, crowd)
    failed = _failed() if code == TESTS_FAILED else []
    if not 0 < len(failed) <= FEW:
        return code == 0
    print("\nWhat failed among the others is run again, alone", flush=True)
    good = _code(python, ["--last-failed", *noted, *arguments]) == 0
    if good:
        print("\nPassed alone only, so look at them: too little time, or a race", flush=True)
        print(*failed, sep="\n", flush=True)
    return good


def _failed() -> list[str]:
    noted = ROOT / CACHE / "v" / "cache" / "lastfailed"
    return sorted(json.loads(noted.read_text())) if noted.exists() else []


def _pytest(python: list[str], arguments: list[str]) -> bool:
    return _code(python, ["-n", WORKERS, "--dist", "loadfile", *arguments]) == 0


def _code(python: list[str], arguments: list[str]) -> int:
    command = [*python, "-m", "pytest", *arguments]
    return subprocess.run(command, cwd=ROOT, env=_environment(), check=False).returncode


def _environment() -> dict[str, str]:
    # This tree and no other, also for the processes that tests start from a shared environment.
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    # Where a machine is set so, each of a thousand processes would compile the package again.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return environment


if __name__ == "__main__":
    sys.exit(main())
