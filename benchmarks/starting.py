"""Processor time of a short `locknut run` on `file:`, beside Python's own start.

    python -m benchmarks.starting [ROUNDS]

Each round runs every command once, so that a busy machine is unfair to all of them alike. The
least and the middle one of the rounds are printed, in milliseconds of processor time (user and
system, of the command and its children).
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from pathlib import Path

import locknut

_ROUNDS = 20


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else _ROUNDS
    with tempfile.TemporaryDirectory() as folder:
        commands = _commands(f"file:{folder}/locks")
        environment = _environment(folder)
        for words in commands.values():
            _cost(words, environment)  # once for the compiled modules and the lock file
        found: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(rounds):
            for name, words in commands.items():
                found[name].append(_cost(words, environment))
    for name, costs in found.items():
        print(f"{name:<32}{1000 * min(costs):6.0f}{1000 * statistics.median(costs):6.0f} ms")


def _commands(url: str) -> dict[str, list[str]]:
    python = sys.executable
    return {
        "python -S -c pass": [python, "-S", "-c", "pass"],
        "python -c pass": [python, "-c", "pass"],
        "python -c 'import locknut'": [python, "-c", "import locknut"],
        "locknut run x -- true": [python, "-m", "locknut", "run", "-u", url, "x", "--", "true"],
    }


def _environment(folder: str) -> dict[str, str]:
    """Ours, but compiled modules are written and found, as after an installation."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    source = str(Path(locknut.__file__).parent.parent)
    return {**kept, "PYTHONPATH": source, "PYTHONPYCACHEPREFIX": folder}


def _cost(words: list[str], environment: dict[str, str]) -> float:
    pid = os.posix_spawn(words[0], words, environment)
    _, status, used = os.wait4(pid, 0)
    assert status == 0, words
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
