"""`locknut ping`: one line, and a code that a probe can act on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import locknut
from locknut.cli.ping import main
from tests.cli.harness import Shell
from tests.servers.ports import Ports
from tests.servers.redis import RedisServer


def test_it_says_in_one_line_that_the_engine_works(shell: Shell, tmp_path: Path) -> None:
    code, out, err = shell.run("ping")
    assert (code, err) == (0, "")
    assert out.startswith(f"file:{tmp_path}/locks works: ")
    assert out.endswith(" ms\n")
    assert shell.run("ping", "-q") == (0, "", "")
    answer = json.loads(shell.run("ping", "--json", "--timeout", "30s")[1])
    assert set(answer) == {"backend", "place", "seconds"}
    assert answer["backend"] == "file"
    assert shell.run("ls")[1].splitlines()[1:] == []


def test_an_engine_out_of_reach_is_69() -> None:
    ports = Ports()
    (port,) = ports.reserve(1)
    code, out, err = Shell(f"redis://:s3cret@127.0.0.1:{port}").run("ping", "-w", "20")
    ports.close()
    assert (code, out) == (69, "")
    assert err.count("\n") == 1
    assert "s3cret" not in err


@pytest.mark.redis
def test_a_wrong_password_is_77(redis_password_server: RedisServer) -> None:
    port = redis_password_server.port
    code, out, err = Shell("").run("ping", "-u", f"redis://:wr0ng@127.0.0.1:{port}")
    assert (code, out) == (77, "")
    assert "wr0ng" not in err


@pytest.mark.parametrize("words", [["x"], ["--timeout", "soon"], ["--no-such"]])
def test_a_wrong_command_line_is_64(shell: Shell, words: list[str]) -> None:
    assert shell.run("ping", *words)[0] == 64


def test_it_waits_as_long_as_it_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[object] = []
    ping = locknut.Locks.ping

    def noted(locks: locknut.Locks, timeout: float) -> object:
        asked.append(timeout)
        return ping(locks, timeout)

    monkeypatch.setattr(locknut.Locks, "ping", noted)
    assert main("ping", ["-q", "-u", f"file://{tmp_path}/locks", "--timeout", "7"]) == 0
    assert asked == [7.0]


def test_the_help_is_there(shell: Shell) -> None:
    assert "whether the engine works" in shell.run("ping", "--help")[1]
    assert "ping" in shell.run("--help")[1]


@pytest.mark.redis
@pytest.mark.faults
def test_it_returns_in_time_from_a_server_that_hangs() -> None:
    with RedisServer() as server:
        server.stop()
        try:
            code, _, err = Shell(server.url).run("ping", "--timeout", "0.5")
        finally:
            server.cont()
    assert (code, err.count("\n")) == (69, 1)
