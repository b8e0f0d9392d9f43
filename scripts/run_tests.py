"""Runs the tests: everything on the main CPython, a shorter list on every other one here.

    python3 scripts/run_tests.py [pytest arguments for the full run]

What the tests need of servers is fetched first (scripts/fetch_servers.py); in CI a server that
cannot be had is a failure. The others go first, so that the full run's summary is the last thing
on the screen. With LOCKNUT_PYTHONS=main only the main one is used.
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
WORKERS = os.environ.get("LOCKNUT_TEST_WORKERS", "3")
"""Files of tests that run at once, each with servers of its own: most tests wait for something."""


def main() -> int:
    """Nought if every run passed."""
    chosen = main_python()
    interpreter = str(prepare(ROOT / ".venv", ["dev"], chosen))
    if not _servers(interpreter) and os.environ.get("CI"):
        return 1
    everybody = [] if os.environ.get("LOCKNUT_PYTHONS") == "main" else all_pythons()
    others = [one for one in everybody if one.short != chosen.short]
    passed = {str(other): _short_run(other) for other in others}
    if passed:
        told = [f"{version} {'passed' if good else 'FAILED'}" for version, good in passed.items()]
        print(f"\nThe short list: {', '.join(told)}", flush=True)
    print(f"\nCPython {chosen}: everything", flush=True)
    good = _pytest(interpreter, sys.argv[1:])
    return 0 if good and all(passed.values()) else 1


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
    return _pytest(str(interpreter), ["-q", *chosen])


def _pytest(interpreter: str, arguments: list[str]) -> bool:
    command = [interpreter, "-m", "pytest", "-n", WORKERS, "--dist", "loadfile", *arguments]
    # This tree and no other, also for the processes that tests start from a shared environment.
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
