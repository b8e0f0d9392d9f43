"""Small projects of users, run by a pytest of their own: what the plugin does to each."""

from __future__ import annotations

import textwrap
from importlib.metadata import entry_points

import pytest


def write(pytester: pytest.Pytester, **files: str) -> None:
    """Modules by their name, indented as they stand in the test."""
    pytester.makepyfile(**{name: textwrap.dedent(text) for name, text in files.items()})


OTHER_PLUGINS = ("-p", "no:asyncio", "-p", "no:anyio")
"""Those that run loops: a test switches on the one that it is about."""
NOT_NEEDED = ("-p", "no:hypothesispytest")
"""It is imported as a whole at the end of every run, which takes a third of it."""


def run(
    pytester: pytest.Pytester, *options: str, others: tuple[str, ...] = OTHER_PLUGINS
) -> pytest.RunResult:
    """In a process of its own, with lock files of its own; with the plugin, also where Locknut is
    not installed. Warnings are errors.
    """
    found = bool(entry_points(group="pytest11", name="locknut"))
    plugin = () if found else ("-p", "locknut.testing.plugin")
    always = (*plugin, *others, *NOT_NEEDED, "-p", "no:cacheprovider", "-Werror")
    folder = pytester.path / "real_locks"
    folder.mkdir(mode=0o700, exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("LOCKNUT_URL", raising=False)
        patch.setenv("XDG_STATE_HOME", str(folder))
        patch.setenv("XDG_RUNTIME_DIR", str(folder))
        return pytester.runpytest_subprocess(*always, *options)


def passes(
    pytester: pytest.Pytester,
    count: int,
    *options: str,
    others: tuple[str, ...] = OTHER_PLUGINS,
) -> pytest.RunResult:
    """All of these tests pass."""
    result = run(pytester, *options, others=others)
    assert result.ret == 0, f"{result.ret}: {result.stdout.str()}{result.stderr.str()}"
    result.assert_outcomes(passed=count)
    return result
