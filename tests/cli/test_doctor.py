"""`locknut doctor`: findings for people and for CI, and the codes it ends with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from locknut.core.findings import PAGE
from tests.cli.harness import Shell
from tests.servers.ports import Ports
from tests.servers.redis import RedisServer


@pytest.fixture
def warned(tmp_path: Path) -> Shell:
    """At an engine with exactly one warning: the setgid bit is missing."""
    locks = tmp_path / "shared"
    locks.mkdir()
    locks.chmod(0o770)
    return Shell(f"file://{locks}")


IGNORED = "file-cleaner,file-system"
"""What depends on the machine that the tests run on."""


def test_it_lists_every_check_and_counts_them(shell: Shell, tmp_path: Path) -> None:
    code, out, err = shell.run("doctor", "--ignore", IGNORED)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith(f"file:{tmp_path}/locks, Locknut ")
    assert any(line.split()[:2] == ["ok", "reachable"] for line in lines)
    assert lines[-1].startswith("8 checks: ")
    assert shell.run("ls")[1].splitlines()[1:] == []
    assert shell.run("doctor", "-q", "--ignore", IGNORED) == (0, "", "")


def test_the_url_may_be_an_operand(tmp_path: Path) -> None:
    code, out, _ = Shell("").run("doctor", f"file://{tmp_path}/other")
    assert code == 0
    assert out.startswith(f"file:{tmp_path}/other, ")


def test_a_warning_fails_only_what_is_strict(warned: Shell) -> None:
    code, out, _ = warned.run("doctor", "--ignore", IGNORED)
    assert code == 0
    assert "WARN     file-permissions" in out
    assert f"see {PAGE}#file-permissions" in out
    assert warned.run("doctor", "--strict", "--ignore", IGNORED)[0] == 1
    assert warned.run("doctor", "--ignore", IGNORED, env={"LOCKNUT_DOCTOR_STRICT": "1"})[0] == 1
    code, out, _ = warned.run("doctor", "--strict", "--ignore", f"{IGNORED}, file-permissions")
    assert code == 0
    assert "ignored  file-permissions" in out
    quiet = warned.run("doctor", "-q", "--ignore", IGNORED)[1]
    assert quiet.startswith("  WARN     file-permissions")
    assert "reachable" not in quiet


def test_a_check_that_fails_is_1(tmp_path: Path) -> None:
    locks = tmp_path / "above" / "locks"
    locks.mkdir(parents=True)
    (tmp_path / "above").chmod(0o777)
    assert Shell(f"file://{locks}").run("doctor")[0] == 1


def test_as_json_it_is_one_object(warned: Shell) -> None:
    code, out, _ = warned.run("doctor", "--json", "--strict", "--ignore", IGNORED)
    assert out.count("\n") == 1
    told = json.loads(out)
    assert set(told) == {"backend", "place", "locknut", "exit_code", "findings"}
    assert (told["backend"], told["exit_code"], code) == ("file", 1, 1)
    by_code = {each["code"]: each for each in told["findings"]}
    finding = by_code["file-permissions"]
    assert set(finding) == {"code", "severity", "found", "advice", "page", "ignored"}
    assert (finding["severity"], finding["ignored"]) == ("warn", False)
    assert by_code["file-cleaner"]["ignored"]


def test_an_engine_out_of_reach_is_69_and_shows_no_password() -> None:
    ports = Ports()
    (port,) = ports.reserve(1)
    code, out, err = Shell(f"redis://:s3cret@127.0.0.1:{port}").run("doctor", "-w", "5")
    ports.close()
    assert (code, err) == (69, "")
    assert "FAIL     reachable" in out
    assert "s3cret" not in out


@pytest.mark.redis
def test_a_wrong_password_is_77(redis_password_server: RedisServer) -> None:
    port = redis_password_server.port
    code, out, err = Shell("").run("doctor", f"redis://:wr0ng@127.0.0.1:{port}")
    assert (code, err) == (77, "")
    assert "FAIL     usable" in out
    assert "wr0ng" not in out


def test_what_cannot_be_opened_is_78(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    code, out, err = Shell("").run("doctor", f"file://{tmp_path}")
    assert (code, out) == (78, "")
    assert "everybody may write" in err
    assert Shell("memory:").run("doctor")[0] == 78


@pytest.mark.parametrize("words", [["file:", "x"], ["--timeout", "soon"], ["--no-such"]])
def test_a_wrong_command_line_is_64(shell: Shell, words: list[str]) -> None:
    assert shell.run("doctor", *words)[0] == 64


def test_a_short_ttl_is_told(shell: Shell) -> None:
    told = json.loads(shell.run("doctor", "--json", "--ttl", "1ms")[1])
    found = {each["code"]: each for each in told["findings"]}["round-trip"]
    assert "ttl of 1 ms" in found["found"]
