"""What is not ours in the dashboard: each file is what its package has, with its licence."""

from __future__ import annotations

import base64
import hashlib
import json

import pytest

from tests.contracts.sources import PACKAGE

FOLDER = PACKAGE / "dashboard" / "static" / "vendor"
LISTED = json.loads((FOLDER / "vendored.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", LISTED)
def test_it_is_unchanged(name: str) -> None:
    digest = hashlib.sha384((FOLDER / name).read_bytes()).digest()
    assert f"sha384-{base64.b64encode(digest).decode()}" == LISTED[name]["integrity"]


def test_every_file_is_listed() -> None:
    assert {each.name for each in FOLDER.iterdir()} == {*LISTED, "vendored.json"}


def test_every_package_has_its_licence() -> None:
    licences = {each["package"] for name, each in LISTED.items() if name.endswith(".LICENSE")}
    assert {each["package"] for each in LISTED.values()} == licences
    assert {each["license"] for each in LISTED.values()} <= {"0BSD", "MIT"}
