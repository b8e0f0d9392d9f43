"""Sources are parsed whatever other threads do: the contract tests depend on it."""

from __future__ import annotations

import ast
import gc
import threading

import pytest

from tests.parsing import parse


class Litter:
    """Found by a collection of garbage; then another thread parses."""

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        other = threading.Thread(target=ast.parse, args=("a + b",))
        other.start()
        other.join()


def test_another_thread_parses_in_the_middle() -> None:
    text = "[" + "1 + 1, " * 2000 + "]"
    gc.collect()
    Litter()
    (found,) = parse(text).body
    assert isinstance(found, ast.Expr)
    assert isinstance(found.value, ast.List)
    assert len(found.value.elts) == 2000


@pytest.mark.parametrize("collects", [True, False])
def test_garbage_is_collected_afterwards_as_before(collects: bool) -> None:
    before = gc.isenabled()
    try:
        gc.enable() if collects else gc.disable()
        with pytest.raises(SyntaxError):
            parse("1 +")
        assert gc.isenabled() is collects
    finally:
        gc.enable() if before else gc.disable()
