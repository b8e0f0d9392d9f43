"""`locknut capacity`: what a number of locks would need, without asking any engine."""

from __future__ import annotations

import json

import pytest

from locknut.capacity import ENGINES, Demand, costs_of, estimate
from tests.cli.harness import Shell

NOBODY = "redis://nobody.invalid:1"


def test_it_tells_what_is_needed_and_asks_nobody() -> None:
    shell = Shell(NOBODY)
    code, out, err = shell.run("capacity", "--locks", "50000", "--ttl", "30", "--hosts", "200")
    assert (code, err) == (0, "")
    assert out.startswith("redis: 50,000 locks with a ttl of 30s, in 200 processes\n")
    assert "  renewals      5,000 per second\n" in out
    assert "one server is enough" in out.splitlines()[-1]


def test_json_has_what_was_asked_and_what_is_needed(shell: Shell) -> None:
    words = ["--locks", "7000", "--ttl", "1m", "--hosts", "5", "--processes", "2", "--rate", "10"]
    code, out, _ = shell.run("capacity", *words, "--waiters", "3", "--new-names", "--json", NOBODY)
    demand = Demand(7000, 60.0, 10, waiters=3, rate=10, new_names=10)
    needs = estimate(demand, costs_of("redis"))
    assert code == 0
    assert json.loads(out) == {**demand._asdict(), **needs._asdict()}


def test_one_server_that_is_not_enough_is_1(shell: Shell) -> None:
    code, out, err = shell.run("capacity", "--locks", "100000000", "--hosts", "20000", "redis")
    assert (code, err) == (1, "")
    assert "the server needs" in out
    assert "connections are more than" in out


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_has_an_answer(shell: Shell, engine: str) -> None:
    code, out, err = shell.run("capacity", "--locks", "10", engine)
    assert (code, err) == (0, "")
    assert out.startswith(f"{engine}: 10 locks")
    assert json.loads(shell.run("capacity", "--locks", "10", "--json", engine)[1])["locks"] == 10


@pytest.mark.parametrize(
    "words",
    [[], ["--locks", "-1"], ["--locks", "many"], ["--locks", "1", "--hosts", "0"], ["--no-such"]],
)
def test_a_wrong_command_line_is_64(shell: Shell, words: list[str]) -> None:
    code, out, err = shell.run("capacity", *words)
    assert (code, out) == (64, "")
    assert err.count("\n") == 1


def test_an_engine_that_was_not_measured_is_78(shell: Shell) -> None:
    code, out, err = shell.run("capacity", "--locks", "1", "rediz")
    assert (code, out) == (78, "")
    assert "did you mean 'redis'" in err
