"""`etcdctl lock NAME COMMAND` beside `locknut run NAME -- COMMAND`: one line, as the page says."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
from collections.abc import Iterator

import pytest

from tests.cli.harness import Shell
from tests.migrating.peers import PATIENCE
from tests.servers.etcd import EtcdServer

pytestmark = pytest.mark.etcd
HOLD = ["--", "sh", "-c", "echo begun; sleep 600"]
"""Until it is told to end: `etcdctl` gives its command no input to wait for."""


@pytest.fixture
def part() -> str:
    """A part of the server of one's own."""
    return f"test-{secrets.token_hex(6)}"


@pytest.fixture
def shell(etcd_server: EtcdServer, part: str) -> Iterator[Shell]:
    made = Shell(f"{etcd_server.url}/{part}")
    made.environment["ETCDCTL_API"] = "3"
    yield made
    made.close()


def test_locknut_run_keeps_etcdctl_out(etcd_server: EtcdServer, shell: Shell, part: str) -> None:
    ours = shell.start("run", "nightly", "--", "sh", "-c", "echo begun; read line; echo ours")
    assert ours.line() == "begun"
    theirs = subprocess.Popen(
        etcd_server.etcdctl_command("lock", f"{part}/locknut/nightly", "echo", "theirs"),
        env=shell.environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    with theirs:
        asked = ("show", "nightly", "--json")
        while '"waiters": []' in shell.run(*asked)[1]:
            assert theirs.poll() is None
        ours.stdin.write("go\n")
        ours.stdin.flush()
        said, _ = theirs.communicate(timeout=PATIENCE)
    assert ours.finish()[:2] == (0, "ours\n")
    assert (theirs.returncode, said) == (0, "theirs\n")


def test_etcdctl_keeps_locknut_run_out(etcd_server: EtcdServer, shell: Shell, part: str) -> None:
    with subprocess.Popen(
        etcd_server.etcdctl_command("lock", f"{part}/locknut/nightly", *HOLD),
        env=shell.environment,
        stdout=subprocess.PIPE,
        text=True,
        process_group=0,
    ) as theirs:
        try:
            assert theirs.stdout is not None
            assert theirs.stdout.readline() == "begun\n"
            code, _, said = shell.run("run", "-n", "nightly", "--", "true")
        finally:
            os.killpg(theirs.pid, signal.SIGKILL)
    assert code == 75
    assert '"nightly" is held by' in said


def test_its_command_gets_neither_input_nor_signals(
    etcd_server: EtcdServer, shell: Shell, part: str
) -> None:
    """What `locknut run` does otherwise."""
    script = 'read line; echo "read:$line"; kill -TERM $PPID; echo "still here"'
    done = subprocess.run(
        etcd_server.etcdctl_command("lock", f"{part}/locknut/nightly", "--", "sh", "-c", script),
        env=shell.environment,
        input="a line",
        stdout=subprocess.PIPE,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "read:\nstill here\n")
