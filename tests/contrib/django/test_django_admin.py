"""The page of the admin: the scenarios of a program, one test each."""

from __future__ import annotations

import pytest

from tests.contrib.django.scenarios import outcomes, scenarios_of

PROGRAM = "admin_program.py"


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return outcomes(PROGRAM, tmp_path_factory.mktemp("site"))


@pytest.mark.parametrize("scenario", scenarios_of(PROGRAM))
def test_in_the_admin(told: dict[str, str], scenario: str) -> None:
    assert told[scenario] == ""
