"""Which CPythons this machine has, from 3.11 on: the PATH, pyenv's folder, and what uv knows."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

OLDEST = (3, 11)
NEWEST_NAME = 19
"""Names up to python3.19 are looked for; what does not exist yet costs nothing to ask."""

_ASK = """
import json, sys, sysconfig
from importlib.util import find_spec
print(json.dumps({
    "path": getattr(sys, "_base_executable", sys.executable),
    "cpython": sys.implementation.name == "cpython",
    "version": sys.version_info[:3],
    "threaded": bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
    "venv": find_spec("venv") is not None and find_spec("ensurepip") is not None,
}))
"""


class Interpreter(NamedTuple):
    """One CPython, and whether it can make virtual environments by itself."""

    path: str
    version: tuple[int, int, int]
    threaded: bool
    venv: bool

    @property
    def short(self) -> str:
        """What names its environment: 3.13, or 3.13t without the global lock."""
        return f"{self.version[0]}.{self.version[1]}{'t' if self.threaded else ''}"

    def __str__(self) -> str:
        return ".".join(map(str, self.version)) + ("t" if self.threaded else "")


def ask(path: str) -> Interpreter | None:
    """What is really there: a pyenv shim lies on the PATH also when its version is switched off."""
    command = [path, "-I", "-c", _ASK]
    try:
        done = subprocess.run(command, capture_output=True, timeout=30, check=True)
        told = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    version = tuple(told["version"])
    if not told["cpython"] or version < OLDEST:
        return None
    return Interpreter(told["path"], version, told["threaded"], told["venv"])


def main_python() -> Interpreter:
    """The one everything runs on: the machine's `python3`, or the one that runs this."""
    found = ask(shutil.which("python3") or sys.executable) or ask(sys.executable)
    if found is None:
        raise SystemExit("Locknut needs CPython 3.11 or newer.")
    return found


def all_pythons() -> list[Interpreter]:
    """One of each minor version, oldest first; of equals the one that can make environments."""
    best: dict[str, Interpreter] = {}
    for path in dict.fromkeys(_places()):
        found = ask(path)
        if found and _rank(found) > _rank(best.get(found.short)):
            best[found.short] = found
    return sorted(best.values(), key=lambda one: (one.version, one.threaded))


def _rank(one: Interpreter | None) -> tuple[bool, tuple[int, ...]]:
    return (one.venv, one.version) if one else (False, ())


def _places() -> Iterator[str]:
    yield sys.executable
    for minor in range(OLDEST[1], NEWEST_NAME + 1):
        for name in (f"python3.{minor}", f"python3.{minor}t"):
            if path := shutil.which(name):
                yield path
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from map(str, sorted(pyenv.glob("versions/3.*/bin/python3")))
    yield from _known_to_uv()


def _known_to_uv() -> list[str]:
    uv = shutil.which("uv")
    if uv is None:
        return []
    command = [uv, "python", "list", "--only-installed", "--output-format", "json"]
    done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    if done.returncode:
        return []
    return [str(one["path"]) for one in json.loads(done.stdout) if one.get("path")]


if __name__ == "__main__":
    for interpreter in all_pythons():
        print(interpreter.short, interpreter.path)
