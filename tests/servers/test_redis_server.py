"""Every variant of a single private Redis starts, answers, can be disturbed, and goes."""

from __future__ import annotations

import os
import signal
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.servers.certificates import Certificates, make_certificates
from tests.servers.ports import HOST
from tests.servers.processes import ROOT, exists, until
from tests.servers.redis import RedisServer
from tests.servers.resp import Refused

pytestmark = pytest.mark.redis


@contextmanager
def leaving_nothing(server: RedisServer) -> Iterator[RedisServer]:
    """Run it for a while; nothing of it may be there afterwards."""
    with server:
        pid = server.pid
        yield server
    assert not exists(pid)
    assert not server.folder.exists()


@pytest.mark.parametrize("flavour", ["redis", "valkey"])
def test_a_plain_one(flavour: str) -> None:
    with leaving_nothing(RedisServer(flavour=flavour)) as server:
        assert server.url == f"redis://127.0.0.1:{server.port}/0"
        assert server.ask("SET", "a", "1") == b"OK"
        assert server.ask("GET", "a") == b"1"
        assert server.ask("GET", "b") is None
        assert server.ask("EVAL", "return {1, {'x', false}}", 0) == [1, [b"x", None]]
        assert int(server.info()["process_id"]) == server.pid
        assert ("valkey_version" in server.info()) is (flavour == "valkey")


def test_a_unix_socket() -> None:
    with leaving_nothing(RedisServer(unix=True)) as server:
        assert server.url == f"redis+unix://{server.socket}"
        assert server.ask("PING") == b"PONG"


def test_a_password() -> None:
    with leaving_nothing(RedisServer(password="p@ss/w:rd")) as server:
        assert server.url == f"redis://:p%40ss%2Fw%3Ard@127.0.0.1:{server.port}/0"
        assert server.ask("PING") == b"PONG"
        with server.connect_bare() as stranger, pytest.raises(Refused, match="NOAUTH"):
            stranger.ask("PING")


def test_a_user_of_an_acl() -> None:
    server = RedisServer(user="locker", password="pw", rules="~lock:* -@all +get +set")
    with leaving_nothing(server), server.connect_bare() as wire:
        assert server.url == f"redis://locker:pw@127.0.0.1:{server.port}/0"
        wire.ask("AUTH", "locker", "pw")
        assert wire.ask("SET", "lock:a", "1") == b"OK"
        with pytest.raises(Refused, match="NOPERM"):
            wire.ask("SET", "other", "1")
        with pytest.raises(Refused, match="NOPERM"):
            wire.ask("DEL", "lock:a")
        assert server.ask("DEL", "lock:a") == 1


def test_tls(certificates: Certificates, tmp_path_factory: pytest.TempPathFactory) -> None:
    with leaving_nothing(RedisServer(certificates=certificates)) as server:
        assert server.url.startswith(f"rediss://{HOST}:{server.port}/0?")
        assert server.ask("PING") == b"PONG"
        stranger = make_certificates(tmp_path_factory.mktemp("stranger"))
        server.settings = type(server.settings)(certificates=stranger)
        with pytest.raises(ssl.SSLCertVerificationError):
            server.connect()


def test_killed_and_started_again_it_knows_nothing() -> None:
    with RedisServer() as server:
        port, pid = server.port, server.pid
        server.ask("SET", "a", "1")
        server.kill()
        assert not server.running
        with pytest.raises(ConnectionRefusedError):
            server.connect()
        server.start()
        assert server.port == port
        assert server.pid != pid
        assert server.ask("GET", "a") is None


def test_a_durable_one_survives_being_killed() -> None:
    with RedisServer(durable=True) as server:
        server.ask("SET", "a", "1")
        server.kill()
        server.start()
        assert server.ask("GET", "a") == b"1"


@pytest.mark.parametrize("durable", [False, True])
def test_a_restart_keeps_all_or_nothing(durable: bool) -> None:
    with RedisServer(durable=durable) as server:
        server.ask("SET", "a", "1")
        server.restart(keep_data=True)
        assert server.ask("GET", "a") == b"1"
        server.restart(keep_data=False)
        assert server.ask("GET", "a") is None
        server.ask("SET", "b", "1")
        server.restart(keep_data=True)
        assert server.ask("GET", "a") is None
        assert server.ask("GET", "b") == b"1"


def test_a_stopped_one_accepts_and_does_not_answer() -> None:
    with RedisServer() as server, server.connect(timeout=0.05) as wire:
        server.stop()
        wire.send("SET", "a", "1")
        with server.connect_bare(timeout=0.05) as another, pytest.raises(TimeoutError):
            another.ask("PING")
        server.cont()
        until(lambda: server.ask("GET", "a") == b"1", "what was sent is done")


def test_one_that_stands_still_can_be_ended() -> None:
    with leaving_nothing(RedisServer()) as server:
        server.stop()


def test_connections_are_cut() -> None:
    with RedisServer() as server, server.connect() as wire, server.connect() as subscriber:
        wire.ask("PING")
        subscriber.ask("SUBSCRIBE", "c")
        assert server.client_kill() == 2
        for cut in (wire, subscriber):
            with pytest.raises((ConnectionResetError, BrokenPipeError)):
                cut.ask("PING")


def test_data_and_scripts_are_flushed() -> None:
    with RedisServer() as server:
        server.ask("SET", "a", "1")
        sha = server.ask("SCRIPT", "LOAD", "return 1")
        assert isinstance(sha, bytes)
        server.flushall()
        server.script_flush()
        assert server.ask("DBSIZE") == 0
        with pytest.raises(Refused, match="NOSCRIPT"):
            server.ask("EVALSHA", sha, 0)


def test_a_frozen_one_answers_afterwards() -> None:
    with RedisServer() as server, server.freeze(0.05) as wire:
        assert wire.read() == b"OK"
        assert server.ask("PING") == b"PONG"


def test_what_it_said_is_shown_if_it_does_not_start() -> None:
    server = RedisServer(more={"no-such-setting": "1"})
    with pytest.raises(Exception, match="no-such-setting"):
        server.start()
    server.close()


def test_none_is_left_when_the_tests_are_killed(tmp_path: Path) -> None:
    """SIGKILL of the whole test run, from which nobody can clean up."""
    code = (
        "from tests.servers.redis import RedisServer\n"
        "print(RedisServer().start().pid, flush=True)\n"
        "input()\n"
    )
    command = [sys.executable, "-c", code]
    path = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path, "TMPDIR": str(tmp_path)},
        text=True,
    ) as run:
        assert run.stdout is not None
        server = int(run.stdout.readline())
        assert exists(server)
        run.send_signal(signal.SIGKILL)
    until(lambda: not exists(server), "the server died with the run")


def test_one_started_by_a_thread_outlives_the_thread() -> None:
    """The death signal follows a thread, so a restart in a short-lived one must not use its own."""
    with RedisServer() as server:
        thread = threading.Thread(target=lambda: server.restart(keep_data=False))
        thread.start()
        thread.join()
        assert server.ask("PING") == b"PONG"
        assert server.running
