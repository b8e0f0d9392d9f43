"""The reference and the code say the same: every option, capability, error, event and state.

What the code has and the page does not mention is missing from the page; what a table of the page
lists and the code does not have is a promise that nobody keeps.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import pytest

import locknut
from locknut.core.values import Event
from tests.contracts.sources import ROOT

PAGE = (ROOT / "docs/reference.md").read_text(encoding="utf-8")
CODE = frozenset(re.findall(r"`([^`\n]+)`", PAGE))
WORDS = frozenset(word for code in CODE for word in re.findall(r"\w+", code))
"""Every word that stands in code between backticks, and"""
SHOWN = frozenset(re.findall(r"\b(\w+)=", PAGE))
"""every argument that an example gives by its name."""

MAKERS = (
    "connect", "lock", "rwlock", "semaphore", "all",
    "locked", "once", "election", "ping", "force_release", "history",
)  # fmt: skip
METHODS = {
    locknut.Lock: ("acquire",),
    locknut.Lease: ("detach", "on_lost"),
    locknut.Locks: ("doctor",),
}
ERRORS = [
    thing
    for name in sorted(locknut.__all__)
    if isinstance(thing := getattr(locknut, name), type) and issubclass(thing, Exception)
]


def table(first_cell: str) -> list[list[str]]:
    """The rows of the table whose head begins with this cell."""
    head = PAGE.index(f"\n| {first_cell} |") + 1
    rows = PAGE[head:].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def names(cell: str) -> list[str]:
    """`held`, `check()` -> held, check."""
    return [re.match(r"\w+", code).group() for code in re.findall(r"`([^`]+)`", cell)]  # type: ignore[union-attr]


def options(function: object) -> set[str]:
    found = inspect.signature(function).parameters.values()  # type: ignore[arg-type]
    return {one.name for one in found if one.kind is not one.VAR_POSITIONAL} - {"self"}


def every_option() -> Iterator[tuple[str, str]]:
    for name in MAKERS:
        yield from ((name, option) for option in sorted(options(getattr(locknut, name))))
    for kind, methods in METHODS.items():
        for name in methods:
            yield from (
                (f"{kind.__name__}.{name}", option)
                for option in sorted(options(getattr(kind, name)))
            )


@pytest.mark.parametrize(("function", "option"), list(every_option()))
def test_every_option_is_in_the_reference(function: str, option: str) -> None:
    assert option in WORDS | SHOWN, f"docs/reference.md does not mention {option}= of {function}"


@pytest.mark.parametrize(
    ("head", "function"), [("option", "connect"), ("argument of `lock`", "lock")]
)
def test_a_table_of_options_lists_just_those_that_exist(head: str, function: str) -> None:
    listed = [name for row in table(head) for name in names(row[0])]
    assert set(listed) == options(getattr(locknut, function)) - {"name"}
    assert len(listed) == len(set(listed))


def test_the_table_of_capabilities_lists_just_those_that_exist() -> None:
    listed = [name for row in table("capability") for name in names(row[0])]
    assert sorted(listed) == sorted(locknut.Capability)


def test_the_table_of_a_lease_lists_just_what_it_has() -> None:
    listed = {name for row in table("Lease") for name in names(row[0])}
    public = {name for name in dir(locknut.Lease) if not name.startswith("_")}
    assert listed <= public
    assert public - listed <= {"name", "lock"} | WORDS


def test_the_table_of_a_finding_lists_just_what_it_has() -> None:
    rows = {names(row[0])[0]: row[1] for row in table("Finding")}
    assert list(rows) == list(locknut.Finding._fields)
    assert set(names(rows["severity"])) - {"Severity"} == set(locknut.Severity)


def test_every_state_is_in_the_reference() -> None:
    row = next(row for row in table("Lease") if names(row[0]) == ["state"])
    assert set(names(row[1])) == set(locknut.State)


def test_the_tree_of_errors_is_that_of_the_code() -> None:
    tree = PAGE[PAGE.index("LocknutError\n├") :].split("```")[0]
    drawn = dict(re.findall(r"(\w+) +\(also (\w+)\)", tree))
    listed = set(re.findall(r"^[ │├└─]*(\w+)", tree, re.MULTILINE))
    assert listed == {each.__name__ for each in ERRORS if issubclass(each, locknut.LocknutError)}
    for error in ERRORS:
        also = [base.__name__ for base in error.__bases__ if base.__module__ == "builtins"]
        if issubclass(error, locknut.LocknutError) and error is not locknut.LocknutError:
            assert ([drawn[error.__name__]] if error.__name__ in drawn else []) == also


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: str(error.__name__))
def test_every_error_and_warning_is_in_the_reference(error: type[Exception]) -> None:
    assert re.search(rf"\b{error.__name__}\b", PAGE)


def test_every_kind_and_field_of_an_event_is_in_the_reference() -> None:
    paragraph = PAGE[PAGE.index("\nKinds: ") :].split("\n\n")[0].split(". Events arrive")[0]
    kinds, fields = (set(names(part)) for part in paragraph.split("; fields: "))
    assert fields == set(Event._fields) - {"kind"}
    source = inspect.getsource(Event)
    written = source[source.index("kind: str") :].split('"""')[1]
    assert kinds == set(re.findall(r"\w+", written)) - {"or"}


def test_these_tests_can_fail() -> None:
    assert "no_such_option" not in WORDS | SHOWN
    assert names("`held`, `check()`") == ["held", "check"]
    assert [row[0] for row in table("option")][:1] == ["`url`"]
