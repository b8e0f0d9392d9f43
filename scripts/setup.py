"""Makes a virtual environment with this package (editable) and some of its dependency groups.

    python3 scripts/setup.py                      .venv with everything for development
    python3 scripts/setup.py .venv-3.13 test --python /path/to/python3.13
    python3 scripts/setup.py .venv-bench bench --alone bench-alone --apart bench-apart

Needs nothing but the standard library, does nothing the second time, and leaves the machine's pip
settings alone. Groups are read here, so a pip too old for `--group` will do.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path

from pythons import Interpreter, ask, main_python

ROOT = Path(__file__).resolve().parent.parent


def prepare(
    folder: Path,
    groups: list[str],
    python: Interpreter,
    alone: list[str] | None = None,
    apart: list[str] | None = None,
    as_soon_as_made: Callable[[Path], object] = lambda _interpreter: None,
) -> Path:
    """The environment's interpreter, after whatever was needed to get there.

    What is in the groups `alone` comes without its own requirements, which contradict others'.
    What is in the groups `apart` comes so too, and into a folder of its own name: its modules are
    called like others'.

    A new environment is told of before anything is installed into it: it has a pip.
    """
    interpreter = folder / "bin" / "python"
    stamp = folder / "locknut-setup"
    alone, apart = alone or _alone(groups), apart or []
    wanted = _fingerprint([*groups, *alone, *apart], python)
    if folder.is_symlink():  # somebody shares an environment between trees: it is theirs to keep
        return interpreter
    if interpreter.exists() and stamp.exists() and stamp.read_text() == wanted:
        return interpreter
    print(f"Setting up {folder.name} with CPython {python}", flush=True)
    _make(folder, python)
    as_soon_as_made(interpreter)
    requirements = [line for group in groups for line in requirements_of(group)]
    _pip(interpreter, "install", *requirements, "--editable", str(ROOT))
    for group in alone:
        _pip(interpreter, "install", "--no-deps", *requirements_of(group))
    (packages,) = (folder / "lib").glob("python3*/site-packages")
    for line in [line for group in apart for line in requirements_of(group)]:
        name = re.split(r"[^\w-]", line)[0].replace("-", "_")
        _pip(interpreter, "install", "--no-deps", "--target", str(packages / name), line)
    stamp.write_text(wanted)
    return interpreter


def _alone(groups: list[str]) -> list[str]:
    """What the tests need without its requirements comes with what they need."""
    return ["test-alone"] if {"test", "dev"} & set(groups) else []


def requirements_of(group: str) -> list[str]:
    """The requirements of a PEP 735 group, included groups first."""
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    lines: list[str] = []
    for entry in groups[group]:
        lines += [entry] if isinstance(entry, str) else requirements_of(entry["include-group"])
    return lines


def _fingerprint(groups: list[str], python: Interpreter) -> str:
    """Changes when the environment has to be made anew; the tree's own place is one reason."""
    parts = [(ROOT / "pyproject.toml").read_bytes(), Path(__file__).read_bytes()]
    parts.append(repr((sorted(groups), python, str(ROOT))).encode())
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def _make(folder: Path, python: Interpreter) -> None:
    if not python.venv:
        python = _with_venv(python)
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([python.path, "-m", "venv", str(folder)], check=True)


def _with_venv(python: Interpreter) -> Interpreter:
    """Debian and Ubuntu ship `venv` as a package of its own; root may add it, others are told."""
    package = f"python{python.version[0]}.{python.version[1]}-venv"
    if os.geteuid() == 0 and shutil.which("apt-get"):
        print(f"CPython {python} cannot make environments yet: installing {package}", flush=True)
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        subprocess.run(["apt-get", "-qq", "update"], check=True, env=quiet)
        subprocess.run(
            ["apt-get", "-qq", "-y", "--no-install-recommends", "install", package],
            check=True,
            env=quiet,
            stdout=subprocess.DEVNULL,
        )
    again = ask(python.path)
    if again is None or not again.venv:
        raise SystemExit(
            f"CPython {python} ({python.path}) has no venv module.\n"
            f"On Debian or Ubuntu:  sudo apt-get install {package}"
        )
    return again


def _pip(interpreter: Path, *arguments: str) -> None:
    command = [str(interpreter), "-m", "pip", "--disable-pip-version-check", "--quiet", *arguments]
    if subprocess.run(command, check=False).returncode:
        raise SystemExit(f"pip could not install what {interpreter.parent.parent.name} needs")


def main() -> None:
    """Read the command line and prepare that environment."""
    parser = argparse.ArgumentParser(description="Make a virtual environment for this tree.")
    parser.add_argument("folder", nargs="?", default=".venv")
    parser.add_argument("groups", nargs="*", default=["dev"])
    parser.add_argument("--alone", nargs="*", help="groups that come without their requirements")
    parser.add_argument("--apart", nargs="*", help="the same, each in a folder of its own")
    parser.add_argument("--python", help="the interpreter to build on (default: python3)")
    options = parser.parse_args()
    python = ask(options.python) if options.python else main_python()
    if python is None:
        raise SystemExit(f"{options.python} is not a CPython from 3.11 on")
    prepare(ROOT / options.folder, options.groups, python, options.alone, options.apart)


if __name__ == "__main__":
    main()
