"""Runs the tests: everything on the main CPython, a shorter list on every other one here.

    python3 scripts/run_tests.py [pytest arguments for the full run]

The others go first, so that the full run's summary is the last thing on the screen. With
HOLDFAST_PYTHONS=main only the main one is used.
"""

from __future__ import annotations

import os
import subprocess
import sys

from pythons import all_pythons, main_python
from setup import ROOT, prepare

SHORT_LIST = ["tests/core", "tests/conformance", "tests/api"]
"""What depends on the interpreter most: the algorithm, the contract, and the two faces."""


def main() -> int:
    """Nought if every run passed."""
    chosen = main_python()
    passed: list[str] = []
    everybody = [] if os.environ.get("HOLDFAST_PYTHONS") == "main" else all_pythons()
    for other in everybody:
        if other.short == chosen.short:
            continue
        try:
            interpreter = prepare(ROOT / f".venv-{other.short}", ["test"], other)
        except SystemExit as problem:
            if os.environ.get("CI"):
                raise
            print(f"Not tested on CPython {other}: {problem}", flush=True)
            continue
        print(f"\nCPython {other}: {' '.join(SHORT_LIST)}", flush=True)
        if code := _pytest(str(interpreter), ["-q", *_present(SHORT_LIST)]):
            print(f"failed on CPython {other}", flush=True)
            return code
        passed.append(str(other))
    if passed:
        print(f"\nPassed on CPython {', '.join(passed)} (short list).", flush=True)
    print(f"\nCPython {chosen}: everything", flush=True)
    return _pytest(str(prepare(ROOT / ".venv", ["dev"], chosen)), sys.argv[1:])


def _present(folders: list[str]) -> list[str]:
    return [folder for folder in folders if (ROOT / folder).is_dir()]


def _pytest(interpreter: str, arguments: list[str]) -> int:
    command = [interpreter, "-m", "pytest", *arguments]
    # This tree and no other, also for the processes that tests start from a shared environment.
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
