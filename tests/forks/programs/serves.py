"""`gunicorn --preload`: a WSGI application, and a program that starts the server and asks it.

The server imports this module, and takes a lock, before it forks its workers.
"""

from __future__ import annotations

import http.client
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.forks.programs import shop

ADDRESS = str(shop.FOLDER / "http")


def application(environ: dict[str, Any], start: Callable[..., object]) -> Iterable[bytes]:
    done = shop.work() if environ["PATH_INFO"] == "/work" else 0
    start("200 OK", [("Content-Type", "text/plain")])
    return [str(done).encode()]


class Connection(http.client.HTTPConnection):
    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(shop.HANGS)
        self.sock.connect(ADDRESS)


def ask(path: str) -> int:
    connection = Connection("localhost")
    connection.request("GET", path)
    answer = connection.getresponse()
    assert answer.status == 200
    found = int(answer.read())
    connection.close()
    return found


def until_served(server: subprocess.Popen[bytes]) -> None:
    while server.poll() is None:
        try:
            ask("/")
        except OSError:
            threading.Event().wait(0.02)
        else:
            return
    raise RuntimeError(f"gunicorn ended: {server.returncode}")


def main() -> None:
    server = subprocess.Popen([
        sys.executable, "-m", "gunicorn", "--preload", "--workers", "3", "--timeout", "120",
        "--bind", f"unix:{ADDRESS}", "--log-level", "warning", "--no-control-socket",
        "tests.forks.programs.serves",
    ])  # fmt: skip
    try:
        until_served(server)
        with ThreadPoolExecutor(3) as pool:
            with shop.LOCK:
                asked = [pool.submit(ask, "/work") for _ in range(3)]
                shop.until_waiting(3)  # each worker serves one at a time
                assert shop.count() == 1
            found = {each.result() for each in asked}
        assert len(found - {server.pid}) == 3
    finally:
        server.terminate()
        assert server.wait(shop.HANGS) == 0
    assert shop.count() == 1 + 3 * shop.STEPS


if __name__ == "__main__":
    main()
else:
    with shop.LOCK:
        shop.step()
