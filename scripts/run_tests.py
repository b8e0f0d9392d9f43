"""Runs the tests: `make test` what every change must pass, `make test-all` what that leaves out.

    python3 scripts/run_tests.py                  all but what takes long, on the main CPython
    python3 scripts/run_tests.py --rest           what takes long or needs root, and other CPythons
    python3 scripts/run_tests.py tests/guards -x  these, whatever they take: pytest's own arguments
    python3 scripts/run_tests.py --coverage       the first, and whether enough of the package ran

The servers that the tests need are fetched first (scripts/fetch_servers.py); in CI a server that
cannot be had is a failure. With LOCKNUT_PYTHONS=main no other CPython is used.
"""

from __future__ import annotations

import os
import subprocess
import sys

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
WORKERS = os.environ.get("LOCKNUT_TEST_WORKERS", "6")
"""Files of tests that run at once, each with servers of its own: most tests wait for something."""


def main() -> int:
    """Return 0 if every run passed."""
    arguments = sys.argv[1:]
    chosen = main_python()
    interpreter = str(prepare(ROOT / ".venv", ["dev"], chosen))
    if not _servers(interpreter) and os.environ.get("CI"):
        return 1
    others = _others(chosen)
    if arguments[:1] == ["--rest"]:
        return 0 if _rest(chosen, interpreter, others, arguments[1:]) else 1
    print(f"\nCPython {chosen}", flush=True)
    if arguments[:1] == ["--coverage"]:
        return 0 if _covered(interpreter, arguments[1:]) else 1
    good = _pytest([interpreter], arguments or QUICK)
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
    good = _pytest([interpreter], [*REST, *arguments])
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


def _short_run(python: Interpreter) -> bool:
    """Whether the short list passed; without CI, an interpreter without venv is only told of."""
    try:
        interpreter = prepare(ROOT / f".venv-{python.short}", ["test"], python)
    except SystemExit as problem:
        print(f"Not tested on CPython {python}: {problem}", flush=True)
        return not os.environ.get("CI")
    chosen = [each for each in SHORT_LIST if (ROOT / each).exists()]
    print(f"\nCPython {python}: {' '.join(chosen)}", flush=True)
    return _pytest([str(interpreter)], ["-q", *QUICK, *chosen])


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


def _pytest(python: list[str], arguments: list[str]) -> bool:
    command = [*python, "-m", "pytest", "-n", WORKERS, "--dist", "loadfile", *arguments]
    # This tree and no other, also for the processes that tests start from a shared environment.
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    # Where a machine is set so, each of a thousand processes would compile the package again.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
