"""The suite for the engine that a trial is about: pytest collects this file."""

from __future__ import annotations

import secrets
from typing import ClassVar

import pytest

from locknut.testing.conformance import Conformance


class TestUrl(Conformance):
    """All of the contract."""

    spaces: ClassVar[list[str]] = []
    """Every namespace that was used, and may have to be cleared."""
    beginning = "conformance"

    @pytest.fixture
    def engine_url(self, locknut_trial_url: str) -> str:
        return locknut_trial_url

    def new_namespace(self) -> str:
        self.spaces.append(f"{self.beginning}-{secrets.token_hex(6)}")
        return self.spaces[-1]
