"""Watches pytest run the suite: which tests are run, for how long, and what they come to."""

from __future__ import annotations

import signal
from collections.abc import Callable, Generator
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

import pytest

from locknut.runtimes.clock import now
from locknut.testing.trial.rules import Failure, Rule, first_words, spelled

if TYPE_CHECKING:
    from locknut.testing.trial.trial import Wanted

LONGEST: Final = 180.0
"""Seconds that one test may take, also on a slow server: what hangs must not keep all others."""


def not_cleared() -> list[str]:
    """The namespaces in which a test has failed."""
    from locknut.testing.trial.suite_of_url import TestUrl  # not before pytest is set up

    return TestUrl.spaces


class Watcher:
    """A plugin of pytest's, for one run."""

    def __init__(self, url: str, wanted: Wanted, judged: Callable[[Rule], None]):
        self._url = url
        self._wanted = wanted
        self._judged = judged
        self._until = now() + wanted.seconds
        self._by_test: dict[str, Rule] = {}
        self._clean = 0
        """How many namespaces there were before the test that runs."""
        self.over = False
        """Whether the time is over: what is not judged by then stays so."""

    @property
    def rules(self) -> list[Rule]:
        """In their order, each once."""
        return list(dict.fromkeys(self._by_test.values()))

    @pytest.fixture
    def locknut_trial_url(self) -> str:
        """The engine on trial."""
        return self._url

    def pytest_configure(self, config: pytest.Config) -> None:
        config.option.tbstyle = "native"  # pytest's own style reads sources, and may fail in that

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        known: dict[str, Rule] = {}
        chosen = []
        for item in items:
            rule = known.setdefault(_function(item).__name__, _rule(item))
            if self._is_wanted(item, rule):
                rule.to_come += 1
                self._by_test[item.nodeid] = rule
                chosen.append(item)
        items[:] = sorted(chosen, key=_place)
        for item in items:
            _class(item).beginning = self._wanted.namespace

    def _is_wanted(self, item: pytest.Item, rule: Rule) -> bool:
        words = f"{rule.part}: {rule.sentence}"
        colour = self._wanted.colour or _run_of(item)
        return self._wanted.only.lower() in words and colour in _run_of(item)

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        self._clean = len(not_cleared())
        if now() > self._until:
            self._stop(item)

    def _stop(self, item: pytest.Item) -> None:
        self.over = True
        item.session.shouldstop = "the time is over"
        pytest.skip("the time is over")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        left = self._until - now()

        def too_long(_signum: int, _frame: FrameType | None) -> None:
            if left < LONGEST:
                self._stop(item)
            pytest.fail(f"not done after {LONGEST:.0f} s")

        before = signal.signal(signal.SIGALRM, too_long)
        signal.setitimer(signal.ITIMER_REAL, max(0.01, min(LONGEST, left)))
        try:
            return (yield)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if self.over:
            return
        rule = self._by_test[report.nodeid]
        if report.failed:
            run = report.nodeid.partition("[")[2].removesuffix("]")
            rule.failures.append(Failure(run, _message(report), report.longreprtext))
        if report.skipped and report.when == "call":
            rule.skipped = _message(report)
        if report.when == "teardown":
            if not any(each.run and each.run in report.nodeid for each in rule.failures):
                del not_cleared()[self._clean :]
            rule.to_come -= 1
            if not rule.to_come:
                self._judged(rule)


def _function(item: pytest.Item) -> Any:
    assert isinstance(item, pytest.Function)
    return item.function


def _class(item: pytest.Item) -> Any:
    assert isinstance(item, pytest.Function)
    return item.cls


def _home(item: pytest.Item) -> type:
    """The part of the suite that it belongs to."""
    parts: tuple[type, ...] = _class(item).__mro__
    return next(part for part in parts if _function(item).__name__ in vars(part))


def _place(item: pytest.Item) -> int:
    """Parts come in the order in which the suite names them."""
    parts: tuple[type, ...] = _class(item).__mro__
    return parts.index(_home(item))


def _rule(item: pytest.Item) -> Rule:
    function, home = _function(item), _home(item)
    needs = tuple(each.value for each in getattr(function, "needs", ()))
    return Rule(spelled(home.__name__), spelled(function.__name__), needs)


def _run_of(item: pytest.Item) -> str:
    return item.name.partition("[")[2].removesuffix("]")


def _message(report: pytest.TestReport) -> str:
    found: Any = report.longrepr
    if isinstance(found, tuple):  # of a skip: file, line, reason
        return str(found[2]).removeprefix("Skipped: ")
    crash = getattr(found, "reprcrash", None)
    return first_words(crash.message if crash is not None else report.longreprtext)
