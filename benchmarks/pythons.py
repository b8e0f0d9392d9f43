"""Every CPython of this machine that Locknut runs on, each build once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_ASK = """
import sys, sysconfig
ok = sys.implementation.name == "cpython" and sys.version_info >= (3, 11)
print(sys.base_prefix, sys.version.split()[0]) if ok else sys.exit(1)
"""


def all_pythons() -> dict[str, str]:
    """Interpreters by a name for people, this one first."""
    found: dict[str, str] = {}
    for candidate in [sys.executable, *_candidates()]:
        asked = subprocess.run(
            [candidate, "-c", _ASK], capture_output=True, text=True, check=False, timeout=30
        )
        if asked.returncode == 0:
            prefix, version = asked.stdout.split()
            home = "" if prefix != "/usr" else ", the system's"
            found.setdefault(f"CPython {version}{home}", candidate)
    return found


def _candidates() -> list[str]:
    folders = [Path(each) for each in os.environ.get("PATH", "").split(os.pathsep) if each]
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    folders += sorted(each / "bin" for each in pyenv.glob("3.*"))
    names = [f"python3.{minor}" for minor in range(11, 20)]
    return [str(folder / name) for folder in folders for name in names if (folder / name).exists()]
