"""A real browser on a real `locknut dash`, for the tests and for the pictures of the docs.

Playwright's blocking interface runs an event loop in the thread of the test, where a blocking lock
would stop it. So locks are taken in a thread of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Self, TypeVar

import pytest

import locknut
from tests.cli.harness import Running, Shell
from tests.observer.people import held
from tests.servers.processes import ROOT, program

T = TypeVar("T")
AXE = ROOT / ".servers" / "browser" / "axe" / "axe_playwright_python" / "axe.min.js"
FLAGS = ["--no-sandbox", "--disable-gpu", "--force-color-profile=srgb"]


def launch(playwright: Any) -> Any:
    """The browser that `make servers` fetched."""
    return playwright.chromium.launch(
        executable_path=program("chromium-headless-shell"), args=FLAGS
    )


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """For the tests of a file; not started where playwright is not installed."""
    playwright_api = pytest.importorskip("playwright.sync_api")
    with playwright_api.sync_playwright() as playwright:
        started = launch(playwright)
        yield started
        started.close()


class Site:
    """A started `locknut dash`, and the passphrase that it asks for."""

    def __init__(self, shell: Shell, *words: str) -> None:
        self.running: Running = shell.start("dash", "--port", "0", "--every", "0.3", *words)
        said = self.running.error_line()
        self.url = next(word for word in said.split() if word.startswith("http://")).rstrip("/")
        self.passphrase = ""
        if "--allow-break" in words:
            self.passphrase = self.running.error_line().rpartition(" ")[2]

    def log_in(self, page: Any) -> None:
        page.goto(f"{self.url}/login")
        page.fill("#passphrase", self.passphrase)
        page.click("button:has-text('Log in')")


class Holder:
    """Takes locks of one place, in a thread of its own."""

    def __init__(self, url: str) -> None:
        self._thread = ThreadPoolExecutor(1)
        self._locks = self.do(lambda: locknut.connect(url, label="tester"))

    def do(self, work: Callable[[], T]) -> T:
        return self._thread.submit(work).result(60.0)

    def take(self, *names: str) -> list[locknut.Lease]:
        return [self.do(partial(held, self._locks, name)) for name in names]

    def take_many(self, names: list[str]) -> Any:
        return self.do(lambda: self._locks.all(*names).acquire())

    def queue_up(self, name: str) -> None:
        """Wait for a lock that somebody else has, without waiting for that."""
        self._thread.submit(lambda: self._locks.lock(name).acquire())

    def release(self, lease: Any) -> None:
        self.do(lease.release)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.do(self._locks.close)
        self._thread.shutdown()
