"""What is shipped: the wheel has every file the package needs, and needs nothing itself."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest

import locknut
from tests.contracts.sources import PACKAGE, ROOT, simulation
from tests.contracts.test_extras import NO_ENGINE

BUILD = "import sys; from hatchling import build; getattr(build, sys.argv[1])(sys.argv[2])"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built("build_wheel", tmp_path_factory.mktemp("wheel"))


def built(what: str, folder: Path) -> Path:
    command = [sys.executable, "-c", BUILD, what, str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (file,) = folder.glob("locknut-*")
    return file


def test_it_holds_the_whole_package_and_nothing_else(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    ours = {
        f"locknut/{path.relative_to(PACKAGE).as_posix()}"
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert "locknut/py.typed" in names
    (manual,) = (name for name in names if ".data/" in name)
    assert manual.endswith(".data/data/share/man/man1/locknut.1")  # where `man` looks
    assert ours == {name for name in names - {manual} if ".dist-info/" not in name}
    assert any(name.endswith("/licenses/LICENSE") for name in names)


USERS = {
    *(
        "fake_clock",
        "conformance",
        "fake_clients",
        "fakes",
        "flow",
        "loop_thread",
        "plugin",
        "proxy",
    ),
    *("real_locks", "fake_engines", "trial", "order_of_locks"),
}
"""The parts of `locknut.testing`: each helps to test somebody else's code or engine."""


def test_it_has_no_simulator(wheel: Path) -> None:
    """That fits only the commit which it belongs to, so users could not run it."""
    paths = [Path(name) for name in zipfile.ZipFile(wheel).namelist()]
    parts = {path.parts[2].removesuffix(".py") for path in paths if path.parts[1] == "testing"}
    assert parts == USERS | {"__init__"}
    assert not [path for path in paths if path.parts[0] == "tests"]


def test_the_source_archive_has_the_simulator_and_its_tests(tmp_path: Path) -> None:
    with tarfile.open(built("build_sdist", tmp_path)) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {source.name for source in simulation()} < names
    assert {"Makefile", "pyproject.toml", "tests/core/test_simulator.py"} < names


def metadata_of(wheel: Path) -> Message:
    archive = zipfile.ZipFile(wheel)
    (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
    return Parser().parsestr(archive.read(name).decode())


def test_there_is_one_version_number(wheel: Path) -> None:
    assert metadata_of(wheel)["Version"] == locknut.__version__


def test_it_depends_on_nothing_unless_an_extra_is_asked_for(wheel: Path) -> None:
    metadata = metadata_of(wheel)
    needed = metadata.get_all("Requires-Dist") or []
    assert not [line for line in needed if "extra ==" not in line]
    extras = set(metadata.get_all("Provides-Extra") or [])
    engines = {"redis", "valkey", "zookeeper", "mysql", "mariadb", "postgresql"}
    assert extras == engines | NO_ENGINE


def test_every_entry_point_leads_somewhere(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path)
    program = """
from importlib.metadata import distribution
entries = [e for e in distribution("locknut").entry_points if e.group != "pytest11"]
groups = {"console_scripts", "locknut.backends", "locknut.clients"}
assert {e.group for e in entries} == groups, entries
for entry in entries:
    assert callable(entry.load()), entry
"""
    environment = {"PYTHONPATH": str(tmp_path), "PATH": os.environ["PATH"]}
    command = [sys.executable, "-c", program]
    subprocess.run(command, cwd=tmp_path, env=environment, check=True)
