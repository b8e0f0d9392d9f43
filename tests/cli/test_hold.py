"""`locknut acquire`, `renew`, `release` and `check`: a hold that no process keeps."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

import locknut
from locknut.cli import main
from tests.cli.harness import LOCKNUT, Shell
from tests.servers.redis import RedisServer


def acquire(shell: Shell, *words: str) -> str:
    code, out, err = shell.run("acquire", "x", "--ttl", "1m", *words)
    assert (code, err) == (0, "")
    return out.strip()


def test_a_hold_is_taken_renewed_and_released(shell: Shell) -> None:
    hold = acquire(shell)
    assert re.fullmatch(r"locknut1\.[\w-]+", hold)
    code, _, err = shell.run("run", "-n", "x", "--", "true")
    assert code == 75
    assert '"x" is held by tester' in err
    code, out, err = shell.run("renew", hold, "--ttl", "2m")
    assert (code, err) == (0, "")
    again = out.strip()
    assert again != hold
    assert shell.run("release", hold)[0] == 79, "only the newest text is worth anything"
    assert shell.run("run", "-n", "-q", "x", "--", "true")[0] == 75
    assert shell.run("release", again) == (0, "", "")
    assert shell.run("release", again)[0] == 79
    assert shell.run("run", "-n", "x", "--", "true") == (0, "", "")


def test_the_text_may_be_in_the_environment(shell: Shell) -> None:
    first = {"LOCKNUT_HOLD": acquire(shell)}
    code, out, _ = shell.run("renew", "--ttl", "1m", env=first)
    assert code == 0
    assert shell.run("release", env={"LOCKNUT_HOLD": out.strip()}) == (0, "", "")
    assert shell.run("release")[0] == 64


def test_json_has_what_a_script_needs(shell: Shell) -> None:
    facts = json.loads(acquire(shell, "--json"))
    assert facts.keys() == {"lock", "fence", "expires_in", "hold"}
    assert (facts["lock"], facts["expires_in"]) == ("x", 60.0)
    assert shell.run("check", "x", "--fence", str(facts["fence"]), "-q")[0] == 0
    renewed = json.loads(shell.run("renew", facts["hold"], "--ttl", "9m", "--json")[1])
    assert (renewed["fence"], renewed["expires_in"]) == (facts["fence"], 540.0)
    assert shell.run("release", renewed["hold"])[0] == 0


def test_it_ends_by_itself(shell: Shell) -> None:
    code, out, _ = shell.run("acquire", "x", "--ttl", "100ms")
    assert code == 0
    assert shell.run("acquire", "x", "--ttl", "1m", "-w", "30s")[0] == 0
    assert shell.run("renew", out.strip(), "--ttl", "1m")[0] == 79
    assert shell.run("release", out.strip())[0] == 79


def test_it_can_be_waited_for(shell: Shell) -> None:
    hold = acquire(shell)
    assert shell.run("acquire", "x", "--ttl", "1m", "-n", "-q")[0] == 75
    assert shell.run("acquire", "x", "--ttl", "1m", "-w", "50ms", "-E", "5", "-q")[0] == 5
    waiting = shell.start("acquire", "x", "--ttl", "1m")
    assert shell.run("release", hold)[0] == 0
    code, out, _ = waiting.finish()
    assert (code, out[:9]) == (0, "locknut1.")


def test_check_tells_by_its_code(shell: Shell) -> None:
    assert shell.run("check", "x") == (0, "", "")
    facts = json.loads(acquire(shell, "--json"))
    code, out, err = shell.run("check", "x")
    assert (code, out) == (75, "")
    assert "is held by tester" in err
    assert shell.run("check", "-q", "x") == (75, "", "")
    assert json.loads(shell.run("check", "--json", "x")[1])["locked"]
    assert shell.run("check", "-q", "x", "--fence", str(facts["fence"]))[0] == 0
    assert shell.run("check", "-q", "x", "--fence", str(facts["fence"] + 32))[0] == 79
    shell.run("release", facts["hold"])
    assert shell.run("check", "-q", "x", "--fence", str(facts["fence"]))[0] == 79


def test_a_text_that_nobody_could_read_is_no_hold(shell: Shell) -> None:
    read, write = os.pipe()
    os.close(read)
    started = subprocess.run(
        [*LOCKNUT, "acquire", "x", "--ttl", "1m"],
        env=shell.environment,
        stdout=write,
        stderr=subprocess.DEVNULL,
        check=False,
        timeout=60,
    )
    os.close(write)
    assert started.returncode == 141
    assert shell.run("check", "x")[0] == 0


def test_the_label_is_shown(shell: Shell, tmp_path: Path) -> None:
    acquire(shell, "--owner", "deploy")
    with locknut.connect(f"file://{tmp_path}/locks") as locks:
        assert locks.info("x").holders[0].label == "deploy"


@pytest.mark.parametrize(
    "words",
    [
        ("acquire", "x"),
        ("acquire", "x", "--ttl", "soon"),
        ("renew", "--ttl", "1m"),
        ("check",),
    ],
)
def test_wrong_words_end_with_64(shell: Shell, words: tuple[str, ...]) -> None:
    code, out, err = shell.run(*words)
    assert (code, out) == (64, "")
    assert err.startswith("locknut: ")


@pytest.mark.redis
def test_a_hold_lives_in_redis_without_us(redis_server: RedisServer, tmp_path: Path) -> None:
    shell = Shell(f"{redis_server.url}?namespace=hold-{tmp_path.name}")
    try:
        test_a_hold_is_taken_renewed_and_released(shell)
    finally:
        shell.close()


def test_an_engine_that_cannot_detach_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("locknut.backends.file.ofd_locks.works", lambda _: False)
    assert main(["acquire", "x", "--ttl", "1m", "-u", f"file://{tmp_path}/plain"]) == 78
    assert "detaching" in capfd.readouterr().err


def test_a_text_of_something_else_is_refused(shell: Shell) -> None:
    assert shell.run("release", "hunter2")[0] == 78
