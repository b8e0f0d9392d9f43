"""Decides what happens to a test that uses a real lock although nobody asked for that.

pytest's setting `locknut_real_locks` says it for all tests: `allow` them, `refuse` them, or
`replace` them by fakes. Where it says nothing, a file in which a test uses one of our fixtures
refuses them, and all other files are left alone: one line at the end tells of them
(docs/decisions/0013-real-locks-in-tests.md).
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from locknut.core.client import Client
from locknut.core.lock_request import LockRequest
from locknut.runtimes.cpython import caller_frame

SETTING = "locknut_real_locks"
CHOICES = ("allow", "refuse", "replace")
MARKER = "locknut_real"
FIXTURE = "locknut_fakes"
"""All other fixtures of ours need it."""
_REPORTED = "locknut_real_lock"


def configure(config: pytest.Config) -> None:
    """Set up what the project has chosen."""
    chosen = config.getini(SETTING)
    if chosen not in {"", *CHOICES}:
        message = f"{SETTING} must be allow, refuse or replace in pytest's settings, got {chosen!r}"
        raise pytest.UsageError(message)
    if chosen != "allow":
        config.pluginmanager.register(RealLocks(chosen), "locknut-real-locks")


def are_wanted(item: pytest.Item) -> bool:
    """Whether this test says that it uses real locks."""
    return item.get_closest_marker(MARKER) is not None


def are_replaced(request: pytest.FixtureRequest) -> bool:
    """Whether this test has fake locks: it uses a fixture of ours, or all tests have them."""
    if FIXTURE in request.fixturenames:
        return True
    return request.config.getini(SETTING) == "replace" and not are_wanted(request.node)


class RealLocks:
    """Watches the clients of this process while a test runs."""

    def __init__(self, chosen: str):
        self._chosen = chosen
        self._files: set[Path] = set()
        """Where a test uses one of our fixtures."""
        self._used = ""
        self._refused = ""
        self._told: list[tuple[str, str]] = []

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Called for every test function of a file, also for those that are not chosen to run."""
        if FIXTURE in metafunc.fixturenames:
            self._files.add(metafunc.definition.path)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self._used = self._refused = ""
        if are_wanted(item):
            return (yield)
        with self._watched(item):
            return (yield)

    @contextmanager
    def _watched(self, item: pytest.Item) -> Iterator[None]:
        claim, ensure_open = Client.claim, Client.ensure_open

        def watched_claim(client: Client, request: LockRequest, *args: Any, **options: Any) -> Any:
            self._see(client, repr(client.bare(request.key)), item)
            return claim(client, request, *args, **options)

        def watched_open(client: Client) -> None:
            self._see(client, "some", item)
            ensure_open(client)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Client, "claim", watched_claim)
            patch.setattr(Client, "ensure_open", watched_open)
            yield

    def _see(self, client: Client, what: str, item: pytest.Item) -> None:
        """This client is about to use its engine."""
        if getattr(client.backend, "fake", False) or client.backend.name == "memory":
            return
        why = self._why_refused(item)
        if why:
            self._refused = _explanation(f"{what} on {client.id}", item, why)
            pytest.fail(self._refused, pytrace=False)
        self._used = client.id

    def _why_refused(self, item: pytest.Item) -> str:
        if self._chosen == "replace":
            return (
                f"pytest's settings say {SETTING} = replace, and the fakes begin with each test:\n"
                "a fixture of a wider scope begins its own by `with locknut.testing.fake_locks():`."
            )
        if self._chosen == "refuse":
            return f"pytest's settings say {SETTING} = refuse."
        if item.path in self._files:
            return f"another test in {item.path.name} uses a fixture of Locknut's."
        return ""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self) -> Generator[None, object, object]:
        with self._told_at_the_end():
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Generator[None, object, object]:
        with self._told_at_the_end():
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self) -> Generator[None, object, object]:
        with self._told_at_the_end():
            return (yield)

    @contextmanager
    def _told_at_the_end(self) -> Iterator[None]:
        """Fail as well where the code under test caught it, or another thread met it."""
        try:
            yield
            if self._refused:
                pytest.fail(self._refused, pytrace=False)
        finally:
            self._refused = ""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if call.when == "teardown" and self._used and not self._chosen:
            setattr(report, _REPORTED, self._used)  # pytest-xdist carries it to its controller
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        place = getattr(report, _REPORTED, "")
        if place:
            self._told.append((report.nodeid, place))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._told and not self._chosen:
            test, place = self._told[0]
            count = "1 test" if len(self._told) == 1 else f"{len(self._told)} tests"
            terminalreporter.write_line(
                f"Locknut: {count} used real locks, the first of them {test} on {place}. "
                f"In pytest's settings, {SETTING} = replace gives all tests fake ones; "
                "= allow says that this is meant."
            )


def _explanation(what: str, item: pytest.Item, why: str) -> str:
    name = getattr(item, "originalname", item.name)
    return f"""this test would use a real lock: {what}
{_caller()}

It is refused because {why}

To give it a fake one, use any fixture of Locknut's:

    def {name}(locknut_locks):

(or for all tests, in pytest's settings: {SETTING} = replace). If the lock should be real:

    @pytest.mark.{MARKER}

(or for all tests: {SETTING} = allow)."""


def _caller() -> str:
    """The line outside of Locknut that asked for the lock."""
    frame = caller_frame()
    if frame is None:
        return "    (this interpreter does not tell its callers)"
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] == "locknut":
        frame = frame.f_back
    return f"    {frame.f_code.co_filename}:{frame.f_lineno}, in {frame.f_code.co_name}"
