"""Blocking locks under gevent: a greenlet is what a thread is elsewhere, on every engine."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.harness import default_signals

ENGINES = ("file", "redis", "redlock", "zookeeper")
SERVERS = {"redis": "redis_server", "redlock": "redlock_nodes", "zookeeper": "zookeeper_server"}
STORIES = (
    "excludes",
    "leaves_the_hub_free",
    "enters_again",
    "is_renewed",
    "gives_up_in_time",
    "is_interrupted",
)
HANGS = 110.0
"""Less than a test has, so that what the program complained of is shown."""


@pytest.fixture
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    engine = request.param
    if engine == "file":
        return f"file://{tmp_path}"
    server = request.getfixturevalue(SERVERS[engine]).url
    return f"{server}{'&' if '?' in server else '?'}namespace={secrets.token_hex(8)}"


@pytest.mark.parametrize("url", ENGINES, indirect=True)
@pytest.mark.slow
def test_a_greenlet_is_as_good_as_a_thread(url: str) -> None:
    """One story after the other in one process: to start it takes longer than most of them."""
    run("-m", "gevent.monkey", "--module", "tests.greenlets.program", url, *STORIES)


@pytest.mark.parametrize("url", ["redis"], indirect=True)
@pytest.mark.slow
def test_an_interrupt_that_comes_to_the_keeper_costs_no_lock(url: str) -> None:
    run("-m", "gevent.monkey", "--module", "tests.greenlets.program", url, "keeps_on")


@pytest.mark.parametrize("url", ["redis"], indirect=True)
def test_a_hub_that_stands_still_renews_nothing(url: str) -> None:
    run("-m", "gevent.monkey", "--module", "tests.greenlets.program", url, "computes")


def test_a_silent_server_keeps_no_greenlet() -> None:
    run("-m", "gevent.monkey", "--module", "tests.greenlets.program", "x", "asks_the_silent")


def test_without_patches_a_second_greenlet_is_refused(tmp_path: Path) -> None:
    run("-m", "tests.greenlets.program", f"file://{tmp_path}", "late")


def run(*words: str) -> None:
    path = os.pathsep.join(filter(None, sys.path))
    with subprocess.Popen(
        [sys.executable, "-X", "faulthandler", "-W", "ignore", *words],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=default_signals,  # noqa: PLW1509 -- else a `make test &` ignores Ctrl-C in it
    ) as program:
        try:
            said, _ = program.communicate(timeout=HANGS)
        except subprocess.TimeoutExpired:
            program.send_signal(signal.SIGABRT)  # it shows where it hangs
            said, _ = program.communicate()
    assert program.returncode == 0, said
