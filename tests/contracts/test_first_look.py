"""What somebody sees who explores at a prompt: the public names alone, and what matters first."""

from __future__ import annotations

import doctest
import pydoc
from types import ModuleType

import pytest

import locknut
from locknut import aio

A_SCREEN = 42
"""Lines of a terminal window."""

both_faces = pytest.mark.parametrize("face", [locknut, aio], ids=lambda face: str(face.__name__))


@both_faces
def test_dir_shows_the_public_names_alone(face: ModuleType) -> None:
    more = {"__version__", "aio", "errors", "guards"} if face is locknut else set()
    assert set(face.__all__) <= set(dir(face)) <= set(face.__all__) | more
    assert all(hasattr(face, name) for name in dir(face))


@both_faces
def test_the_first_lines_of_help_are_true(
    face: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCKNUT_URL", "memory:first-look")
    monkeypatch.setattr(locknut, "_default", [])
    done = doctest.testmod(face)
    locknut.default().close()
    assert done.attempted
    assert not done.failed


def test_the_first_screen_of_help_names_every_function() -> None:
    lines = pydoc.plain(pydoc.render_doc(locknut)).splitlines()
    first = "\n".join(lines[:A_SCREEN])
    functions = [name for name in locknut.__all__ if name.islower() and name != "default"]
    missing = [name for name in functions if f" {name}(" not in first]
    assert not missing
    assert "PACKAGE CONTENTS" in lines, "help goes on after what the module says of itself"
