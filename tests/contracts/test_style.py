"""The house rules that can be counted: sizes, first sentences, and words that are not used."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.contracts.sources import Source, simulation, sources

LONGEST_FILE = 320
LONGEST_FUNCTION = 60
BANNED = frozenset({"manager", "helper", "helpers", "util", "utils", "token", "tokens"})
"""Words that say nothing, and one that means three different things."""

SOURCES = [*sources(), *simulation()]
Function = ast.FunctionDef | ast.AsyncFunctionDef


def test_a_file_is_short_and_starts_with_what_it_decides() -> None:
    lines = {source: source.text.count("\n") for source in SOURCES}
    assert not {source: count for source, count in lines.items() if count > LONGEST_FILE}, "split"
    assert not [source for source in SOURCES if not _sentence(source).endswith((".", ":"))]


def _sentence(source: Source) -> str:
    """What the file starts with."""
    return (ast.get_docstring(source.tree) or "").split("\n\n")[0].rstrip()


def test_functions_are_short() -> None:
    long = [
        f"{source}:{node.lineno} {node.name}: {length} lines"
        for source in SOURCES
        for node in ast.walk(source.tree)
        if isinstance(node, Function) and (length := _length(node)) > LONGEST_FUNCTION
    ]
    assert not long


def test_names_are_words_of_the_domain() -> None:
    wrong = [
        f"{source}:{line} {name}"
        for source in SOURCES
        if not source.module.startswith("locknut.compat.")  # others' own words, on purpose
        for line, name in (*_defined(source.tree), (1, source.module.replace(".", "_")))
        if BANNED & set(words(name))
    ]
    assert not wrong


def _length(function: Function) -> int:
    """Lines of the body without the docstring, as the study of good code counted them."""
    start = function.body[0]
    if ast.get_docstring(function) is not None and len(function.body) > 1:
        start = function.body[1]
    return (function.end_lineno or start.lineno) - start.lineno + 1


def _defined(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Names this file gives; what others called their things is their affair."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.lineno, node.name
            case ast.arg():
                yield node.lineno, node.arg
            case ast.Name(ctx=ast.Store()):
                yield node.lineno, node.id
            case ast.Attribute(ctx=ast.Store()):
                yield node.lineno, node.attr


def words(name: str) -> list[str]:
    """`RetryManager` and `retry_manager` are both retry, manager."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().split("_")


def test_words_are_found_in_both_spellings() -> None:
    assert words("RetryManager") == words("retry_manager") == ["retry", "manager"]
    assert words("contextmanager") == ["contextmanager"]
