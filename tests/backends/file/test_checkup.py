"""What `doctor` finds in a directory that is set up just so."""

from __future__ import annotations

from pathlib import Path

import pytest

import locknut
from locknut.backends.file.directory import open_directory
from locknut.backends.file.flock_engine import FlockEngine
from locknut.runtimes import file_systems, tmpfiles
from tests.checkups import FAIL, OK, WARN, by_code, examine, in_layers, mounted

pytestmark = pytest.mark.file
both_colours = pytest.mark.parametrize("colour", ["blocking", "asyncio"])


@pytest.fixture(autouse=True)
def no_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """What cleans up this machine is not what is tested."""
    monkeypatch.setattr(tmpfiles, "FOLDERS", ())


def url(path: Path) -> str:
    return f"file://{path}"


@both_colours
def test_a_directory_as_it_should_be(tmp_path: Path, colour: str) -> None:
    found = examine(url(tmp_path / "locks"), colour)
    assert {each.severity for each in found.values()} == {OK}, found
    assert len(found) == 8


@both_colours
def test_a_group_without_the_setgid_bit(tmp_path: Path, colour: str) -> None:
    tmp_path.chmod(0o770)
    finding = examine(url(tmp_path), colour)["file-permissions"]
    assert finding.severity is WARN
    assert f"chmod g+s {tmp_path}" in finding.advice
    tmp_path.chmod(0o2770)
    assert examine(url(tmp_path), colour)["file-permissions"].severity is OK


@both_colours
def test_a_directory_above_that_everybody_may_change(tmp_path: Path, colour: str) -> None:
    above, locks = tmp_path / "above", tmp_path / "above" / "locks"
    locks.mkdir(parents=True)
    above.chmod(0o777)
    finding = examine(url(locks), colour)["file-permissions"]
    assert finding.severity is FAIL
    assert str(above) in finding.found
    above.chmod(0o1777)
    assert examine(url(locks), colour)["file-permissions"].severity is OK


RULES = """
# a comment
d {above} 1777 root root 10d
{more}
"""


@pytest.mark.parametrize(
    ("more", "severity"),
    [
        ("", WARN),
        ("x {above}/lo*", OK),
        ("X {above}/locks", OK),
        ("x {above}/others", WARN),
        ("d {above}/locks 0700 - - -", OK),
        ("q {above}/locks 0700 - - 1h", WARN),
        ('d "{above}/locks" 0700 - - "~2d"', WARN),
        ("d {above}/%u 0700 - - 1h", WARN),
        ("f {above}/locks 0700 - - 1h", WARN),
        ('d "a quote without an end', WARN),
    ],
)
def test_a_rule_of_systemd_tmpfiles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: str, severity: str
) -> None:
    rules, above = tmp_path / "tmpfiles.d", tmp_path / "above"
    rules.mkdir()
    (rules / "own.conf").write_text(RULES.format(above=above, more=more.format(above=above)))
    monkeypatch.setattr(tmpfiles, "FOLDERS", (str(tmp_path / "none"), str(rules)))
    finding = examine(url(above / "locks"))["file-cleaner"]
    assert finding.severity == severity
    assert severity == OK or f"{above}" in finding.found


def test_a_file_of_rules_hides_others_of_its_name(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder, age in ((first, "-"), (second, "1d")):
        folder.mkdir()
        (folder / "tmp.conf").write_text(f"q /srv/x 1777 - - {age}\n")
    folders = (str(first), str(second))
    assert tmpfiles.cleaning("/srv/x/locks", folders) is None
    rule = tmpfiles.cleaning("/srv/x/locks", folders[::-1])
    assert rule is not None
    assert (rule.age, rule.file) == ("1d", str(second / "tmp.conf"))


@both_colours
def test_a_network_file_system_that_was_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, colour: str
) -> None:
    monkeypatch.setattr(file_systems, "_kind", lambda _fd: 0x6969)
    finding = examine(f"{url(tmp_path)}?network=allow", colour)["file-system"]
    assert finding.severity is WARN
    assert "NFS" in finding.found


@both_colours
def test_a_system_without_locks_of_open_files(tmp_path: Path, colour: str) -> None:
    locks = locknut.Locks(FlockEngine(open_directory(str(tmp_path))))
    found = by_code(locks.doctor())
    locks.close()
    assert found["file-locks"].severity is WARN
    assert found["usable"].severity is OK


def test_a_directory_that_is_gone(tmp_path: Path) -> None:
    """The probe makes it anew."""
    with locknut.connect(url(tmp_path / "locks")) as locks:
        (tmp_path / "locks").rmdir()
        found = by_code(locks.doctor())
    assert {each.severity for each in found.values()} == {OK}


@pytest.mark.parametrize(
    ("options", "fill", "severity"),
    [
        ("size=64k", "true", WARN),
        ("size=16m,nr_inodes=40", "true", WARN),
        ("size=64k", "head -c 64k /dev/zero > {folder}/full || true", FAIL),
        ("size=16m,nr_inodes=4", "touch {folder}/a {folder}/b", FAIL),  # the probe gets the last
        ("size=16m", "true", OK),
    ],
)
def test_what_room_there_is(tmp_path: Path, options: str, fill: str, severity: str) -> None:
    mount = f"mount -t tmpfs -o {options},mode=0700 none {tmp_path}\n{fill.format(folder=tmp_path)}"
    found = mounted(mount, tmp_path)
    assert found["file-space"]["severity"] == severity, found
    assert (found["usable"]["severity"] == OK) == ("full" not in fill)


def test_the_layers_of_a_container(tmp_path: Path) -> None:
    found = in_layers(tmp_path)
    assert found["file-system"]["severity"] == WARN
    assert "container" in found["file-system"]["found"]
