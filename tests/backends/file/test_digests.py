"""BLAKE2b comes from wherever this interpreter has it, and is the same everywhere."""

from __future__ import annotations

import hashlib
import importlib
import sys

import pytest

from locknut.backends.file import digests

SAID = b"locknut", 16


def test_it_is_blake2b() -> None:
    data, size = SAID
    expected = hashlib.blake2b(data, digest_size=size).hexdigest()
    assert digests.blake2b(data, digest_size=size).hexdigest() == expected


def test_an_interpreter_without_the_private_module_has_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "_blake2", None)  # as if there were none
    try:
        assert importlib.reload(digests).blake2b is hashlib.blake2b
        test_it_is_blake2b()
    finally:
        monkeypatch.undo()
        importlib.reload(digests)
