"""Where the lock files are: the same place for all processes of a user, and never by accident."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest

import locknut
from locknut.backends.file import directory as directories
from locknut.backends.file import ofd_locks
from locknut.core.values import Renewal
from locknut.errors import BackendError, ConfigurationError, Unsupported
from locknut.runtimes import this_boot
from locknut.runtimes.threads import ThreadRuntime
from tests.backends.file.driving import busy, claim, engine_in, run, take
from tests.backends.file.users import by_user, shared_directory


@pytest.fixture(autouse=True)
def no_state_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)


def _below(home: Path | str) -> str:
    return str(Path(home) / ".local/state/locknut")


def test_the_default_directory_is_below_the_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert directories.default_path() == _below(tmp_path)


def test_a_user_without_a_home_has_a_directory_by_uid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/nonexistent")
    monkeypatch.setattr(
        pwd, "getpwuid", lambda _: pwd.struct_passwd(["n", "x", "1", "1", "n", "/none", "/sh"])
    )
    assert directories.default_path() == f"/var/tmp/locknut-{os.geteuid()}"

    def unknown(_: int) -> None:
        raise KeyError

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    assert directories.default_path() == f"/var/tmp/locknut-{os.geteuid()}"


def test_a_relative_state_home_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the XDG specification has it: two jobs with different directories must meet."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", "state")
    assert directories.default_path() == _below(tmp_path)


@pytest.mark.root
def test_root_with_somebodys_home_leaves_it_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`sudo -E`, `su -p`: what root made there, its owner could not use."""
    os.chown(tmp_path, 1001, 1001)
    own = _below(pwd.getpwuid(0).pw_dir)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert directories.default_path() == own
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert directories.default_path() == own
    assert list(tmp_path.iterdir()) == []


@pytest.mark.root
def test_a_default_directory_of_a_stranger_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    (tmp_path / "locknut").mkdir()
    os.chown(tmp_path / "locknut", 1001, 1001)
    with pytest.raises(ConfigurationError, match="another user"):
        engine_in("")


@pytest.mark.root
def test_a_home_that_cannot_be_written_to_is_an_error_not_another_place() -> None:
    """A service with a read-only home must not go elsewhere than its user's shell."""
    with shared_directory(0o550) as home:
        os.chown(home, 1001, 2000)

        def connect() -> str:
            os.environ["HOME"] = str(home)
            return locknut.connect("file:").place

        assert "cannot use" in by_user(1001, connect)
        home.chmod(0o700)
        assert by_user(1001, connect) == f"file:{_below(home)}"


def test_the_place_can_be_seen(directory: Path) -> None:
    assert locknut.connect(f"file://{directory}").place == f"file:{directory}"


# -- URLs


@pytest.mark.parametrize("url", ["file://var/lib/jobs", "file://host/path", "file://tmp"])
def test_a_host_is_refused(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigurationError, match=f"file:///{url.removeprefix('file://')}"):
        locknut.connect(url)


def test_localhost_is_this_machine(directory: Path) -> None:
    assert locknut.connect(f"file://localhost{directory}").place == f"file:{directory}"


@pytest.mark.parametrize("url", ["file:rel", "file:./rel", "file:~/q", "file:../up"])
def test_a_path_that_depends_on_the_current_directory_is_refused(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigurationError, match="whole path"):
        locknut.connect(url)
    assert list(tmp_path.iterdir()) == []


def test_a_nul_character_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="NUL"):
        locknut.connect("file:///tmp/a%00b")


# -- systems


@pytest.mark.root
def test_a_directory_that_may_only_be_read_is_explained() -> None:
    with shared_directory(0o750) as directory:

        def connect() -> bool:
            with locknut.connect(f"file://{directory}").lock("a"):
                return True

        said = by_user(1002, connect)
        assert said.startswith("BackendError")
        assert "Permission denied" in said


def test_no_inodes_left_is_told_as_one_of_our_errors(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = engine_in(directory).blocking(ThreadRuntime())
    real = os.open

    def full(path: str, flags: int, *rest: int, **named: int) -> int:
        if flags & os.O_CREAT:
            raise OSError(28, "No space left on device")
        return real(path, flags, *rest, **named)

    monkeypatch.setattr(os, "open", full)
    with pytest.raises(BackendError, match="No space left"):
        take(backend, claim("ns:new"))


def test_the_probe_asks_who_holds_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine with another byte order the answer would be misread."""
    assert ofd_locks.works(str(tmp_path))
    monkeypatch.setattr(ofd_locks, "_KIND", 1)
    assert not ofd_locks.works(str(tmp_path))


def test_without_proc_nothing_is_detached_and_what_is_detached_is_believed(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a chroot."""
    backend, held = engine_in(directory).blocking(ThreadRuntime()), claim()
    take(backend, held)
    assert run(backend.detach(held, 60.0))
    monkeypatch.setattr(this_boot, "_BOOT_ID", "/nonexistent")
    other, own = engine_in(directory).blocking(ThreadRuntime()), claim("ns:own")
    assert busy(other, claim())
    take(other, own)
    with pytest.raises(Unsupported, match="/proc"):
        run(other.detach(own, 60.0))
    assert run(other.renew([own])) == [Renewal.HELD]


def test_another_working_directory_is_the_same_place(tmp_path: Path, directory: Path) -> None:
    program = "import locknut; print(locknut.connect().place)"
    environment = {**os.environ, "LOCKNUT_URL": f"file://{directory}"}
    said = {
        subprocess.check_output([sys.executable, "-c", program], cwd=cwd, env=environment)
        for cwd in ("/", str(tmp_path))
    }
    assert said == {f"file:{directory}\n".encode()}
