"""What somebody sees who explores at a prompt: the public names alone, and what matters first."""

from __future__ import annotations

import doctest
import pydoc
import re
from enum import StrEnum
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


def test_the_first_two_screens_of_help_name_the_methods_and_the_errors() -> None:
    lines = pydoc.plain(pydoc.render_doc(locknut)).splitlines()
    told = "\n".join(lines[: lines.index("PACKAGE CONTENTS")])
    assert len(told.splitlines()) <= 2 * A_SCREEN
    public = {
        name
        for kind in (locknut.Locks, locknut.Lock, locknut.Lease)
        for name in dir(kind)
        if not name.startswith("_")
    }
    plain = {"backend", "place", "namespace", "capabilities", "name", "owner", "mode"}
    errors = {name for name in locknut.__all__ if _is_error(name)}
    missing = {name for name in public - plain | errors if not re.search(rf"\b{name}\b", told)}
    assert not missing


def _is_error(name: str) -> bool:
    thing = getattr(locknut, name)
    return isinstance(thing, type) and issubclass(thing, locknut.LocknutError)


@pytest.mark.parametrize("words", [locknut.State, locknut.Capability, locknut.Severity])
def test_help_does_not_explain_text(words: type[StrEnum]) -> None:
    """Python's own would list every method of `str`, which is a third of help(locknut)."""
    assert set(words.__members__) <= set(dir(words))
    assert not set(vars(str)) & set(dir(words)) - {"__doc__"}
    assert "capitalize" not in pydoc.plain(pydoc.render_doc(words))
