"""What holds for every test: in CI nothing is skipped silently.

A skipped test of an engine (a marker of that name) fails the run there, and so does every other
skip unless its reason is one of `ALLOWED_SKIPS`. On a developer's machine skips are only listed.
"""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Generator
from typing import Any

import hypothesis
import pytest

from locknut.core import pacing
from tests import collecting
from tests.parsing import no_garbage_collected

ENGINES = frozenset({
    "memory", "file", "redis", "redlock", "zookeeper", "postgresql", "mariadb", "mysql", "sqlite",
    "memcached", "etcd", "firebird",
})  # fmt: skip

ALLOWED_SKIPS = (
    "needs root",
    "needs CPython ",  # 3.12 on, say: the newest run has it
    "needs etcd 3.5",  # Debian 12 has it from the next release
    "needs Redis 6.2",  # its wheel is for x86-64 alone
    "needs git",  # a tree from an sdist has no history to look at
)
"""How an allowed reason begins."""
SKIPPED = 10
"""What the run ends with then: not as after a failed test, which may be run again."""
UNDECLARED = "engine does not declare"
"""Of an engine too: the conformance suite has no test of what the engine does not claim to have."""

SLOW_MAY_TAKE = 600.0
"""Seconds: half a minute on a quiet machine is several where ten workers share two cores."""

pytest_plugins = ["tests.servers.fixtures"]

# A busy machine is slow at everything: that alone fails no test.
hypothesis.settings.register_profile(
    "busy", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("busy")

os.environ.pop("LOCKNUT_URL", None)  # a developer's own engine is not what is tested

_forbidden: list[str] = []
_lasting: set[threading.Thread] = set()


@pytest.fixture
def patient_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine stalls a healthy server for longer than a caller in a hurry waits for it."""
    real = pacing.returns_at
    patient = lambda asked, until: max(real(asked, until), asked + 30.0)  # noqa: E731
    monkeypatch.setattr(pacing, "returns_at", patient)


@pytest.fixture
def patient_closing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine needs longer to write the history than closing waits for it."""
    monkeypatch.setattr(pacing, "FLUSH", 60.0)


@pytest.fixture
def alone() -> None:
    """The simulator exchanges clocks, sockets and chance for the whole process: a thread that an
    earlier test left behind would be at work with them, and change what a seed leads to.
    """
    give_up = time.monotonic() + 30
    while left := {each for each in threading.enumerate() if each.name.startswith("locknut")}:
        if left <= _lasting or time.monotonic() > give_up:
            _lasting.update(left)  # of a test that failed: waited for once, the test may still pass
            return
        time.sleep(0.05)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    if config.getoption("dist") != "loadfile":
        return None
    from tests.scheduling import ByPart  # not before xdist has asked for it: it may be switched off

    return ByPart(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SLOW_MAY_TAKE))
    if hasattr(config, "workerinput"):
        from tests.scheduling import longest_first  # as above

        longest_first(items)


def pytest_collection_finish() -> None:
    """All that was collected stays to the end. A test that collects garbage need not look through
    thirteen thousand others: that takes half a second each time.
    """
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """pytest parses what it shows of a failure: a SystemError there would end the whole worker."""
    with no_garbage_collected():
        return (yield)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("root") and os.geteuid() != 0:
        pytest.skip("needs root")


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    collecting.check()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if not report.skipped or not os.environ.get("CI") or hasattr(report, "wasxfail"):
        return
    reason = _reason(report)
    if UNDECLARED in reason:
        return
    engine = ENGINES & report.keywords.keys()
    if engine or not reason.startswith(ALLOWED_SKIPS):
        _forbidden.append(f"{report.nodeid}: {reason}")


def _reason(report: pytest.TestReport) -> str:
    said = report.longrepr
    text = said[2] if isinstance(said, tuple) else str(said)
    return text.removeprefix("Skipped: ")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if _forbidden:
        session.exitstatus = SKIPPED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _forbidden:
        terminalreporter.section("skipped, which fails in CI", red=True)
        for line in _forbidden:
            terminalreporter.write_line(line)
