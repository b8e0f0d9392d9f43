"""Plays a day of trouble on `file:` and on a Redis of its own, and shows it in the dashboard.

    make demo-ops                          until Ctrl-C
    make demo-ops ARGS="--seconds 20"      for a while

Contention, a deadlock, a hold that hangs, a lease that is lost because its process was stopped, and
a lock that is broken by force. `locknut dash` and `locknut top` can look at the same places: their
URLs are printed.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Self

import locknut
from locknut.dashboard import Dashboard
from locknut.dashboard.access import LOOPBACK, Access
from locknut.dashboard.uvicorn_server import bind, serve

ROOT = Path(__file__).resolve().parents[1]
CREW = [
    *(("contender", f"web-{number}") for number in range(1, 6)),
    *(("reader", f"search-{number}") for number in range(1, 4)),
    *(("caller", f"billing-{number}") for number in range(1, 5)),
    ("nightly", "reports"),
    ("debit", "bank-1"),
    ("credit", "bank-2"),
]
AGAIN = 30.0
"""Seconds between two losses, and between two breaks."""


class Over(Exception):  # not an error
    """The play is over: no process begins any more."""


class Troubles:
    """The processes of one place."""

    def __init__(self, url: str, locks: locknut.Locks) -> None:
        self.url = url
        self.locks = locks
        self._processes: list[subprocess.Popen[str]] = []
        self._guard = threading.Lock()
        self._over = False

    def __enter__(self) -> Self:
        for part, label in CREW:
            self.play(part, label)
        return self

    def __exit__(self, *_: object) -> None:
        with self._guard:
            self._over = True
        for each in self._processes:
            with suppress(ProcessLookupError):
                each.send_signal(signal.SIGCONT)
                each.kill()
        for each in self._processes:
            each.communicate()

    def play(self, part: str, label: str) -> subprocess.Popen[str]:
        command = [sys.executable, str(ROOT / "scripts" / "trouble.py"), part, self.url, label]
        with self._guard:
            if self._over:
                raise Over
            process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            self._processes.append(process)
        return process

    def lose(self) -> None:
        """Stop a process that holds a lease. `file:` has none: a lock ends with its process."""
        if "lease" not in {each.value for each in self.locks.capabilities}:
            return
        process = self.play("shipping", "warehouse")
        if process.stdout is not None and process.stdout.readline():
            process.send_signal(signal.SIGSTOP)

    def break_one(self) -> None:
        """Break a lock that a process holds, by the fence that was seen."""
        process = self.play("settling", "settlement")
        if process.stdout is None or not process.stdout.readline():
            return
        time.sleep(2.5)  # so that the dashboard has seen it
        for holder in self.locks.info("payments:settle").holders:
            reason = "settlement hangs since the deployment"
            self.locks.force_release("payments:settle", holder.fence, reason=reason)


def redis_of_our_own(stack: ExitStack, folder: Path) -> str | None:
    """The server that `make servers` fetched, or the one that is installed."""
    program = ROOT / ".servers" / "bin" / "redis-server"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(program) if program.exists() else "redis-server", "--port", str(port)]
    options = ["--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
    try:
        process = subprocess.Popen([*command, *options], stdout=subprocess.DEVNULL)
    except FileNotFoundError:
        return None
    stack.callback(process.wait)
    stack.callback(process.terminate)
    url = f"redis://127.0.0.1:{port}"
    with locknut.connect(url) as locks:
        give_up = time.monotonic() + 20
        while time.monotonic() < give_up:
            with suppress(locknut.BackendError):
                locks.ping()
                return url
            time.sleep(0.1)
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--port", type=int, default=8437)
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="locknut-ops-")))
        urls = [f"file://{folder}/locks"]
        redis = redis_of_our_own(stack, folder)
        if redis is None:
            print("There is no Redis here: only file: is shown (`make servers` fetches one)")
        else:
            urls.insert(0, redis)
        places = [
            stack.enter_context(
                locknut.connect(url, label=f"operator@{os.uname().nodename}", history=1000)
            )
            for url in urls
        ]
        troubles = [
            stack.enter_context(Troubles(url, locks))
            for url, locks in zip(urls, places, strict=True)
        ]
        dashboard = Dashboard(*places, access=Access(hosts=LOOPBACK))
        listener = bind("127.0.0.1", options.port)
        print(f"The dashboard:  http://localhost:{listener.getsockname()[1]}/")
        print(f"Or by yourself: locknut dash --port 0 {' '.join(urls)}")
        print(f"In a terminal:  locknut top -u {urls[0]}", flush=True)
        _play_in_a_thread(troubles, options.seconds)
        with suppress(KeyboardInterrupt):  # uvicorn raises it again at its end
            serve(dashboard, listener, lambda: None)
    print("Done: everything was stopped and removed")
    return 0


def _play_in_a_thread(troubles: list[Troubles], seconds: float) -> None:
    ends = time.monotonic() + seconds
    over = threading.Event()

    def play() -> None:
        while not over.wait(0.5):
            try:
                for each in troubles:
                    each.lose()
                    each.break_one()
            except (Over, locknut.LocknutError):  # or it is over for the server
                pass
            if over.wait(min(AGAIN, max(0.0, ends - time.monotonic()))):
                return
            if time.monotonic() >= ends:
                os.kill(os.getpid(), signal.SIGINT)
                return

    threading.Thread(target=play, daemon=True).start()


if __name__ == "__main__":
    # Else nobody would stop the processes: uvicorn ends itself by the signal that ended it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with suppress(KeyboardInterrupt):
        sys.exit(main())
