"""Real servers for the tests of the web frameworks: each is a process, asked through a socket file.

A handler that calls `gate` tells the test that it is inside, and stays until the test lets it go.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NamedTuple, Self

import pytest

import locknut
from tests.contracts.documentation import blocks_of
from tests.contracts.sources import ROOT

HANGS = 60.0
TTL = 8
"""On Redis the lock of a process that was killed is free so many seconds later."""

each_engine = pytest.mark.parametrize(
    "url",
    [
        pytest.param("file", marks=pytest.mark.file),
        pytest.param("redis", marks=[pytest.mark.redis, pytest.mark.slow]),
    ],
    indirect=True,
)


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: str

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Connection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=HANGS)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(HANGS)
        self.sock.connect(str(self._path))


class Server:
    """A process that serves the application, from its start to its end."""

    def __init__(self, folder: Path, command: list[str], url: str) -> None:
        self.path = folder / f"http-{secrets.token_hex(4)}"
        filled = [word.replace("{socket}", str(self.path)) for word in command]
        paths = os.pathsep.join([str(folder), *filter(None, sys.path)])
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", *filled],
            cwd=folder,
            env={
                **os.environ,
                "LOCKNUT_URL": url,
                "PYTHONPATH": paths,
                "GATE": str(folder / "gate"),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        give_up = time.monotonic() + HANGS
        while self.process.poll() is None and time.monotonic() < give_up:
            try:
                self.ask("GET", "/ready")
            except OSError:
                threading.Event().wait(0.02)
            else:
                return self
        self.kill()
        raise AssertionError(self.process.communicate()[0])

    def __exit__(self, *error: object) -> None:
        self.kill()
        self.process.communicate()

    def kill(self) -> None:
        """All of it at once, as the kernel does when there is no memory left."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def ask(self, method: str, path: str, **headers: str) -> Answer:
        connection = Connection(self.path)
        try:
            connection.request(method, path, headers=headers)
            answer = connection.getresponse()
            return Answer(
                answer.status,
                {name.lower(): value for name, value in answer.getheaders()},
                answer.read().decode(),
            )
        finally:
            connection.close()

    def post(self, path: str, **headers: str) -> Answer:
        return self.ask("POST", path, **headers)

    def posted(self, path: str, **headers: str) -> Future[Answer]:
        """The same on a thread, for an answer that takes a while."""
        answer: Future[Answer] = Future()

        def run() -> None:
            try:
                answer.set_result(self.post(path, **headers))
            except BaseException as error:  # noqa: BLE001  # for whoever wants the answer
                answer.set_exception(error)

        threading.Thread(target=run, daemon=True).start()
        return answer

    def leave_after(self, path: str, gate: Gate) -> Visitor:
        """A client that sends its request and goes away while the handler is inside."""
        connection = Connection(self.path)
        connection.request("POST", path)
        visitor = gate.inside()
        connection.close()
        return visitor


class Visitor:
    """A handler that waits at the gate."""

    def __init__(self, wire: socket.socket) -> None:
        self._wire = wire
        wire.settimeout(HANGS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """A test that fails leaves no handler at the gate."""
        self._wire.close()

    def go(self) -> None:
        self._wire.sendall(b"g")
        self._wire.close()

    def until_gone(self) -> None:
        """Wait until the handler has left by itself, or was cancelled."""
        assert not self._wire.recv(1)
        self._wire.close()


class Gate:
    """Where handlers of other processes wait for the test."""

    def __init__(self, folder: Path) -> None:
        self._visitors: list[Visitor] = []
        self._door = socket.socket(socket.AF_UNIX)
        self._door.bind(str(folder / "gate"))
        self._door.listen()
        self._door.settimeout(HANGS)

    def inside(self) -> Visitor:
        self._visitors.append(Visitor(self._door.accept()[0]))
        return self._visitors[-1]

    def close(self) -> None:
        self._door.close()
        for visitor in self._visitors:
            visitor.close()


@pytest.fixture
def gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    monkeypatch.setenv("GATE", str(tmp_path / "gate"))  # for handlers of this process
    made = Gate(tmp_path)
    yield made
    made.close()


@pytest.fixture
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Of the engine that the test names (`indirect`), else of files; with names of its own."""
    if getattr(request, "param", "file") == "file":
        return f"file://{tmp_path}/locks"
    return f"{request.getfixturevalue('redis_server').url}?namespace={secrets.token_hex(8)}"


def pass_gate() -> None:
    """In a handler that blocks."""
    with socket.socket(socket.AF_UNIX) as wire:
        wire.connect(os.environ["GATE"])
        wire.recv(1)


async def pass_gate_soon() -> None:
    """In a handler that awaits."""
    reader, writer = await asyncio.open_unix_connection(os.environ["GATE"])
    try:
        await reader.read(1)
    finally:
        writer.close()


def until_free(url: str, name: str) -> None:
    with locknut.connect(url) as locks, locks.lock(name, timeout=HANGS):
        pass


def until_waits(locks: locknut.Locks, name: str) -> None:
    give_up = time.monotonic() + HANGS
    while not locks.info(name).waiters:
        assert time.monotonic() < give_up, f"somebody should wait for {name}"
        threading.Event().wait(0.01)


def page_app(words: str) -> str:
    """The application of docs/web.md that has these words; its handler waits at the gate."""
    (code,) = [each.code for each in blocks_of(ROOT / "docs" / "web.md") if words in each.code]
    wait = "await pass_gate_soon()" if "async def pay" in code else "pass_gate()"
    changed = code.replace("    return ", f"    {wait}\n    return ", 1)
    changed = changed.replace('"order:{order_id}")', f'"order:{{order_id}}", ttl={TTL})', 1)
    assert changed.count("\n") == code.count("\n") + 1
    return f"from {__name__} import pass_gate, pass_gate_soon\n{changed}"


def runs_once_and_survives_kills(servers: Callable[[], Server], gate: Gate, url: str) -> None:
    """Two equal posts on two processes: one runs. A client that leaves is not waited for, and does
    not end its handler. Two processes are killed in the middle: a third one runs.
    """
    with servers() as first, servers() as second:
        paid = first.posted("/orders/7/pay")
        inside = gate.inside()
        refused = second.post("/orders/7/pay")
        assert (refused.status, refused.headers["retry-after"]) == (409, "1")
        other = second.posted("/orders/8/pay")
        gate.inside().go()
        assert other.result(HANGS).json == {"paid": 8}
        inside.go()
        assert paid.result(HANGS).json == {"paid": 7}
        inside = second.leave_after("/orders/7/pay", gate)  # at once: the lock is free by then
        assert first.post("/orders/7/pay").status == 409  # the client is gone, its handler is not
        inside.go()
        until_free(url, "order:7")
        again = second.posted("/orders/7/pay")
        inside = gate.inside()
        second.kill()
        inside.until_gone()
        with pytest.raises(Exception, match=r"."):
            again.result(HANGS)
        until_free(url, "order:7")
        again = first.posted("/orders/7/pay")
        inside = gate.inside()
        first.kill()
        inside.until_gone()
        until_free(url, "order:7")
    with servers() as third:
        paid = third.posted("/orders/7/pay")
        gate.inside().go()
        assert paid.result(HANGS).json == {"paid": 7}
