"""How servers come into the tree: unpacked once, told clearly where they cannot be had."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers.processes import ROOT

APT = """#!/bin/sh
echo "$@" >> "{folder}/asked"
case "$*" in
*" install "*) for name in redis-tools liblua; do echo "'file:/there' ${{name}}_1_all.deb 9"; done;;
*" download "*) for name in redis-tools liblua; do echo > "${{name}}_1_all.deb"; done;;
esac
"""
DPKG = """#!/bin/sh
case "$2" in
*/liblua*) mkdir -p "$3/usr/lib/here" && echo > "$3/usr/lib/here/liblua.so.5"; exit;;
esac
mkdir -p "$3/usr/bin"
cd "$3/usr/bin"
printf '#!/bin/sh\\necho "Redis server v=9.9.9 sha=0 $LD_LIBRARY_PATH"\\n' > redis-check-rdb
chmod +x redis-check-rdb
"""
SERVER = "#!/bin/sh\necho mine\n"


class Machine:
    """A tree with the scripts in it, and a PATH with next to nothing on it."""

    def __init__(self, folder: Path) -> None:
        self.tree = folder / "tree"
        self.path = folder / "bin"
        self.path.mkdir()
        for name in ("sh", "dirname", "mkdir", "chmod"):
            self.path.joinpath(name).symlink_to(shutil.which(name) or name)
        shutil.copytree(ROOT / "scripts", self.tree / "scripts")
        self.asked = self.path / "asked"

    def has(self, name: str, program: str) -> None:
        self.path.joinpath(name).write_text(program)
        self.path.joinpath(name).chmod(0o755)

    def has_packages(self) -> None:
        self.has("apt-get", APT.format(folder=self.path))
        self.has("apt-cache", "#!/bin/sh\n")
        self.has("dpkg-deb", DPKG)

    def fetch(self, name: str = "redis") -> tuple[int, str]:
        command = [sys.executable, str(self.tree / "scripts" / "fetch_servers.py"), name]
        told = subprocess.run(
            command, capture_output=True, text=True, check=False, env={"PATH": str(self.path)}
        )
        return told.returncode, told.stdout + told.stderr


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_packages_are_unpacked_once_and_the_program_runs_with_its_libraries(
    machine: Machine,
) -> None:
    machine.has_packages()
    code, told = machine.fetch()
    assert (code, "Redis server v=9.9.9" in told) == (0, True), told
    calls = machine.asked.read_text()
    assert "--print-uris install redis-tools" in calls, "nothing is installed"
    assert "download redis-tools liblua" in calls, "what the machine lacks comes along"
    servers = machine.tree / ".servers"
    ran = subprocess.check_output([servers / "bin" / "redis-server"], text=True)
    assert ran.strip().endswith(f"{servers}/redis/usr/lib/here:")
    assert machine.fetch() == (0, "")
    assert machine.asked.read_text() == calls, "the second call must not ask again"


def test_a_tree_that_was_moved_still_runs(machine: Machine) -> None:
    machine.has_packages()
    machine.fetch()
    moved = machine.tree.rename(machine.tree.with_name("moved"))
    ran = subprocess.check_output([moved / ".servers" / "bin" / "redis-server"], text=True)
    assert "9.9.9" in ran


def test_without_apt_what_is_installed_is_used(machine: Machine) -> None:
    machine.has("redis-server", SERVER)
    code, told = machine.fetch()
    assert code == 0
    assert "there is no apt-get" in told
    assert f"using {machine.path / 'redis-server'} instead" in told


def test_with_neither_it_says_what_to_do_and_fails(machine: Machine) -> None:
    code, told = machine.fetch()
    assert code == 1
    assert "there is no apt-get" in told
    assert "install redis" in told


def test_a_failed_download_is_shown_and_tried_again(machine: Machine) -> None:
    machine.has("apt-get", "#!/bin/sh\necho no network >&2\nexit 100\n")
    machine.has("apt-cache", "#!/bin/sh\n")
    machine.has("dpkg-deb", DPKG)
    code, told = machine.fetch()
    assert (code, "no network" in told) == (1, True)
    machine.has("apt-get", APT.format(folder=machine.path))
    assert machine.fetch()[0] == 0


def test_a_machine_without_a_mirror_of_debian_does_without_mysql(machine: Machine) -> None:
    """Its own release has none, and the release of Debian that has one cannot be reached."""
    machine.has_packages()
    code, told = machine.fetch("mysql")
    assert (code, "knows no mirror of Debian" in told) == (0, True), told
    assert "tests that need mysql are skipped" in told


def test_a_release_without_firebird_does_without_it(machine: Machine) -> None:
    machine.has_packages()
    code, told = machine.fetch("firebird")
    assert (code, "has no such server" in told) == (0, True), told
    assert "tests that need firebird are skipped" in told


def test_what_trees_share_is_left_as_it_is(machine: Machine) -> None:
    shared = machine.tree.with_name("shared")
    (shared / "bin").mkdir(parents=True)
    (machine.tree / ".servers").symlink_to(shared)
    code, told = machine.fetch()
    assert (code, "not among the servers that this tree shares" in told) == (1, True)
    (shared / "bin" / "redis-server").write_text(SERVER)
    assert machine.fetch() == (0, "")
    assert [each.name for each in shared.iterdir()] == ["bin"]
