"""The command that `locknut run` runs, as others see it."""

from __future__ import annotations

import json
import secrets

import pytest

from locknut.cli import titles
from tests.cli.harness import Shell
from tests.cli.test_contention import hold, let_go, waiting

TITLE = "sh -c echo $LOCKNUT_FENCE; read line; exit 0"
"""The command of `hold`."""


@pytest.fixture(
    params=[
        "file",
        pytest.param("redis", marks=pytest.mark.redis),
        pytest.param("redlock", marks=pytest.mark.redlock),
        pytest.param("zookeeper", marks=pytest.mark.zookeeper),
    ]
)
def everywhere(request: pytest.FixtureRequest, shell: Shell) -> Shell:
    """A shell on every engine."""
    fixtures = {
        "redis": "redis_server",
        "redlock": "redlock_nodes",
        "zookeeper": "zookeeper_server",
    }
    if request.param in fixtures:
        shell.environment["LOCKNUT_URL"] = request.getfixturevalue(fixtures[request.param]).url
    shell.environment["LOCKNUT_NAMESPACE"] = secrets.token_hex(4)
    return shell


@pytest.mark.slow
def test_every_engine_shows_the_command(everywhere: Shell) -> None:
    holder, _ = hold(everywhere, "x", "--owner", "deploy")
    (listed,) = json.loads(everywhere.run("ls", "--json")[1])
    (seen,) = listed["holders"]
    assert (seen["label"], seen["command"]) == ("deploy", TITLE)
    head, row = everywhere.run("ls")[1].splitlines()
    assert row[head.index("COMMAND") :] == TITLE
    assert f"deploy@{seen['host']}:{seen['pid']} ({TITLE}), " in everywhere.run("show", "x")[1]
    assert f" ({TITLE}) since " in everywhere.run("run", "-n", "x", "true")[2].splitlines()[0]
    let_go(holder)


def test_who_waits_shows_its_command(shell: Shell) -> None:
    hold(shell, "x")
    waiter = shell.start("run", "-v", "--fair", "x", "-c", "echo   'two\nlines'")
    waiter.error_line()  # says whom it waits for
    waiter.error_line()
    while not waiting(shell):
        pass
    assert "1. tester@" in (card := shell.run("show", "x")[1])
    assert "(echo 'two lines')" in card


@pytest.mark.parametrize(
    ("given", "seen"),
    [("nightly  import", "nightly import"), ("-", ""), ("t" * 99, "t" * 77 + "...")],
)
def test_a_title_can_be_given_or_left_out(shell: Shell, given: str, seen: str) -> None:
    holder, _ = hold(shell, "x", "--title", given)
    (told,) = json.loads(shell.run("show", "x", "--json")[1])["holders"]
    assert (told["label"], told["command"]) == ("tester", seen)
    let_go(holder)


def test_the_environment_can_hide_it(shell: Shell) -> None:
    shell.environment["LOCKNUT_RUN_TITLE"] = "-"
    hold(shell, "x")
    (told,) = json.loads(shell.run("show", "x", "--json")[1])["holders"]
    assert told["command"] == ""


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["mysql", "--password=hunter2", "orders"], "mysql --password=*** orders"),
        (["mysql", "--password", "hunter2", "orders"], "mysql --password *** orders"),
        (["env", "API_TOKEN=hunter2", "sync"], "env API_TOKEN=*** sync"),
        (["curl", "--api-key", "hunter2"], "curl --api-key ***"),
        (["psql", "postgres://me:hunter2@db/x?a=b"], "psql postgres://me:***@db/x?a=b"),
        (["psql", "postgres://me:a@hunter2@db"], "psql postgres://me:***@db"),
        (["psql", "postgres://me:a/hunter2@db/x"], "psql postgres://me:***@db/x"),
        (["psql", "postgres://me:a@b/hunter2@db"], "psql postgres://me:***@db"),
        (
            ["curl -H 'X-Secret: none' --secret hunter2 a"],
            "curl -H 'X-Secret: none' --secret *** a",
        ),
        (["git", "clone", "https://example.org/a@b"], "git clone https://example.org/a@b"),
    ],
)
def test_what_looks_like_a_secret_is_masked(words: list[str], shown: str) -> None:
    assert titles.of_command(words) == shown


def test_a_long_command_is_cut() -> None:
    title = titles.of_command(["x" * 50, "y" * 50])
    assert title == "x" * 50 + " " + "y" * 26 + "..."
    assert len(title) == titles.LONGEST
