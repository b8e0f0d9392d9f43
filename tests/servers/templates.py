"""Data folders of empty databases: made once by the server's own program, and copied since.

Making one takes a second for PostgreSQL and up to eight for MySQL. The templates lie in
`.servers/templates`, where all workers and later runs find them; a lock keeps two workers from
making the same one.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.servers.processes import ROOT, Ended

TEMPLATES = ROOT / ".servers" / "templates"


def copy_template(kind: str, made_with: str, make: Callable[[Path], None], to: Path) -> None:
    """A fresh data folder there. `made_with` says all that a template depends on."""
    name = f"{kind}-{hashlib.sha256(made_with.encode()).hexdigest()[:16]}"
    try:
        TEMPLATES.mkdir(parents=True, exist_ok=True)
        lock = (TEMPLATES / f"{kind}.lock").open("w")
    except PermissionError:  # the servers are somebody else's
        make(to)
        return
    with lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        if not (TEMPLATES / name).exists():
            fcntl.flock(lock, fcntl.LOCK_EX)
            _make_template(kind, name, make)
        shutil.copytree(TEMPLATES / name, to, symlinks=True, ignore=_sockets)


def _make_template(kind: str, name: str, make: Callable[[Path], None]) -> None:
    if (TEMPLATES / name).exists():  # by whoever had the lock before
        return
    for old in TEMPLATES.glob(f"{kind}-*"):
        shutil.rmtree(old)
    new = TEMPLATES / f"{kind}-new"
    make(new)
    new.rename(TEMPLATES / name)


def _sockets(folder: str, names: list[str]) -> list[str]:
    """MySQL leaves some behind; they are nothing to copy."""
    return [name for name in names if Path(folder, name).is_socket()]


def run(command: list[str], said: str = "") -> None:
    """One of the programs that make a data folder; `said` to it."""
    done = subprocess.run(command, input=said, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Ended(f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}")


@functools.cache
def version(program: str) -> str:
    """As the program tells it."""
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    return done.stdout.strip()
