"""Locks in Django's transactions, settings and checks: a test for each scenario of a program."""

from __future__ import annotations

import json
from contextlib import ExitStack

import pytest

from tests.contrib.django.scenarios import outcomes, scenarios_of
from tests.contrib.django.sites import database_settings

PROGRAM = "transaction_program.py"
SQLITE = {"ENGINE": "django.db.backends.sqlite3", "NAME": "data.db"}


@pytest.fixture(
    scope="module",
    params=[
        pytest.param("sqlite", marks=pytest.mark.sqlite),
        pytest.param("postgresql", marks=pytest.mark.postgresql),
        pytest.param("mariadb", marks=[pytest.mark.mariadb, pytest.mark.slow]),
        pytest.param("mysql", marks=[pytest.mark.mysql, pytest.mark.slow]),
    ],
)
def told(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("site")
    with ExitStack() as stack:
        settings = SQLITE
        if request.param != "sqlite":
            server = request.getfixturevalue(f"{request.param}_server")
            settings = database_settings(stack.enter_context(server.database()))
        places = {"DATABASE": json.dumps(settings), "LOCKNUT_URL": f"file://{folder}/locks"}
        return outcomes(PROGRAM, folder, **places)


@pytest.mark.parametrize("scenario", scenarios_of(PROGRAM))
def test_in_a_site(told: dict[str, str], scenario: str) -> None:
    assert told[scenario] == ""
