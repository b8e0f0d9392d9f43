"""One trial of an engine: greet it, take a lock, run the suite, clear up.

The suite is made of pytest's tests, so it is run by pytest, without the settings and plugins of
whatever project we are started in.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import locknut
from locknut.core.values import Capability
from locknut.errors import BackendError, BackendUnavailable, ConfigurationError, LocknutError
from locknut.runtimes.threads import ThreadRuntime, run
from locknut.testing.trial.rules import Failure, Rule
from locknut.urls import open_engine

if TYPE_CHECKING:
    from locknut.core.ports import Backend

OLDEST_PYTEST: Final = (8, 2)
NAMESPACE: Final = "conformance"
SUITE: Final = "locknut.testing.trial.suite_of_url"
_PATIENCE: Final = 30.0
_INTERRUPTED: Final = 2
_NOTHING_TO_DO: Final = 5
"""How pytest ends: interrupted, and without a test."""


class Wanted(NamedTuple):
    """What of the suite is run, and for how long."""

    only: str = ""
    """Words of the rules, or of their part; empty: all of them."""
    colour: str = ""
    seconds: float = 1800.0
    namespace: str = NAMESPACE
    """What the namespaces of the suite begin with."""


class Trial:
    """Greets the engine when it is made: raises where it cannot be reached."""

    def __init__(self, url: str, wanted: Wanted):
        _need_pytest()
        self._url = url
        self._wanted = wanted
        self._space = f"{wanted.namespace}-{secrets.token_hex(6)}"
        with locknut.connect(url, namespace=self._space) as locks:
            self.backend, self.place = locks.backend, locks.place
        with _asked(url) as backend:
            self.capabilities: frozenset[Capability] = backend.capabilities
            self.server = run(backend.server())
        self.rules: list[Rule] = []
        self.interrupted = False
        self.left_behind = 0
        """Locks of the suite that could not be removed."""

    def run(self, judged: Callable[[Rule], None]) -> None:
        """Try all that is wanted, and tell of each rule when it is judged."""
        if not self._takes_a_lock(judged):
            return
        from locknut.testing.trial.watcher import Watcher, not_cleared  # which needs pytest

        watcher = Watcher(self._url, self._wanted, judged)
        with _ours_alone():
            code = _run_pytest(watcher)
        self.rules += watcher.rules
        self.interrupted = code == _INTERRUPTED and not watcher.over
        self.left_behind = self._clear(not_cleared())
        if code == _NOTHING_TO_DO:
            raise ConfigurationError(f"no rule has {self._wanted.only!r} in its words")
        if code not in {0, 1, _INTERRUPTED}:
            raise RuntimeError(f"pytest could not run the suite: it ended with {code}")

    def _takes_a_lock(self, judged: Callable[[Rule], None]) -> bool:
        """What every other rule needs: an engine that cannot do this is not asked for the rest."""
        rule = Rule("before all others", "a lock can be taken and released", ())
        try:
            with locknut.connect(self._url, namespace=self._space) as locks:
                locks.ping(_PATIENCE)
        except BackendUnavailable:
            raise
        except BackendError as error:
            rule.failures.append(Failure("blocking", str(error), repr(error)))
        self.rules.append(rule)
        judged(rule)
        return not rule.failures

    def _clear(self, namespaces: list[str]) -> int:
        """Free what failed rules left behind; return in how many namespaces that failed.

        Only locks in namespaces that the suite has made up for itself are ever touched.
        """
        failed = 0
        with _asked(self._url) as backend:
            for at, each in enumerate(namespaces):
                try:
                    for prefix in (f"{each}:", f"{each}-2:"):
                        for info in run(backend.inspect_all(prefix)):
                            run(backend.break_hold(info.name, None))
                except BackendUnavailable:  # each of the others would cost as long
                    return failed + len(namespaces) - at
                except LocknutError:
                    failed += 1
        return failed


@contextmanager
def _asked(url: str) -> Iterator[Backend]:
    backend = open_engine(url)[0].blocking(ThreadRuntime())
    try:
        yield backend
    finally:
        run(backend.close())


def _need_pytest() -> None:
    try:
        import pytest
    except ImportError:
        found = "which is not installed"
    else:
        if pytest.version_tuple[:2] >= OLDEST_PYTEST:
            return
        found = f"and {pytest.__version__} is older"
    least = ".".join(map(str, OLDEST_PYTEST))
    message = (
        f"the conformance suite runs on pytest {least} or newer, {found}; "
        f'get it with: pip install "pytest>={least}"'
    )
    raise ConfigurationError(message)


def _run_pytest(watcher: object) -> int:
    import pytest

    words = [
        *("-p", "no:terminal", "-p", "no:cacheprovider", "-p", "locknut.testing.plugin"),
        *("-c", os.devnull, "--rootdir", str(Path(__file__).parent), "--noconftest"),
        *("--import-mode=importlib", "-o", "locknut_real_locks=allow", "--pyargs", SUITE),
    ]
    return int(pytest.main(words, plugins=[watcher]))


@contextmanager
def _ours_alone() -> Iterator[None]:
    """Without what the environment asks of pytest: other plugins may change how tests run."""
    ours = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": "", "PYTEST_PLUGINS": ""}
    before = {name: os.environ.get(name) for name in ours}
    os.environ.update(ours)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
