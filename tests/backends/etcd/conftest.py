"""What the tests of the etcd engine share: places, claims, `etcdctl lock` beside us, patience."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from locknut.backends.etcd.engine import EtcdEngine
from locknut.core.values import Claim
from locknut.urls import open_engine
from tests.servers.etcd import EtcdServer

PATIENCE = 40.0


def eventually(check: Callable[[], object], what: str, patience: float = PATIENCE) -> None:
    """Look until it is so."""
    give_up = time.monotonic() + patience
    while not check():
        assert time.monotonic() < give_up, what
        time.sleep(0.01)


def engine(url: str) -> EtcdEngine:
    found = open_engine(url)[0]
    assert isinstance(found, EtcdEngine)
    return found


def claim(name: str = "x", **facts: Any) -> Claim:
    return Claim(f"locknut:{name}", secrets.token_hex(16), **facts)


def root() -> str:
    return f"test-{secrets.token_hex(6)}"


@pytest.fixture
def path() -> str:
    """A part of the server of one's own."""
    return root()


@pytest.fixture
def url(etcd_server: EtcdServer, path: str) -> str:
    return f"{etcd_server.url}/{path}"


def line(server: EtcdServer, path: str, name: str = "x") -> list[str]:
    """The keys that stand in line, in the order of their creation."""
    asked = ("get", "--prefix", f"{path}/locknut/{name}/", "--keys-only", "--sort-by=CREATE")
    return server.etcdctl(*asked).split()


class Locker:
    """`etcdctl lock`, a program that knows nothing of us."""

    def __init__(self, server: EtcdServer, name: str):
        self._process = subprocess.Popen(
            server.etcdctl_command("lock", name, "--ttl=60"),
            env={**os.environ, "ETCDCTL_API": "3"},
            stdout=subprocess.PIPE,
            text=True,
        )

    def key(self) -> str:
        """Wait until it holds the lock: then it says by which key."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def let_go(self) -> None:
        """It deletes its key and ends its lease."""
        self._process.send_signal(signal.SIGINT)
        self._process.wait(PATIENCE)

    def end(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()


@contextmanager
def etcdctl_lock(server: EtcdServer, name: str) -> Iterator[Locker]:
    locker = Locker(server, name)
    try:
        yield locker
    finally:
        locker.end()
