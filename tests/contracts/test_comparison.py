"""The page that compares: each cell leads to where it comes from, and those files are there."""

from __future__ import annotations

import re
from contextlib import suppress
from importlib import metadata

from tests.contracts.sources import ROOT

PAGE = (ROOT / "docs" / "comparison.md").read_text()
_DEFINED = dict(re.findall(r"^\[([^\]]+)\]: (\S+)$", PAGE, re.MULTILINE))
_USED = re.compile(r"\]\[([^\]]+)\]")
_LINK = re.compile(r"\]\(|\]\[")
PEERS = {
    "redis-py": "redis",
    "python-redis-lock": "python-redis-lock",
    "pottery": "pottery",
    "kazoo": "kazoo",
    "tooz": "tooz",
    "filelock": "filelock",
}
"""By the name on the page, what it is installed as."""


def tables() -> list[list[list[str]]]:
    """Of each table its rows, the heading first, without the rule below it."""
    found: list[list[list[str]]] = [[]]
    for line in PAGE.splitlines():
        if line.startswith("|"):
            found[-1].append([cell.strip() for cell in line.strip("|").split(" | ")])
        elif found[-1]:
            found.append([])
    return [[rows[0], *rows[2:]] for rows in found if rows]


def test_each_cell_leads_to_where_it_comes_from() -> None:
    (_, *features), (_, *faults) = tables()
    said = [(row[0], cell) for row in features for cell in row[1:]]
    said += [(row[0], cell) for row in faults for cell in (row[0], row[2])]
    assert len(said) > 100
    assert not [each for each in said if not _LINK.search(each[1])]


def test_every_source_is_named_and_used() -> None:
    assert {*_USED.findall(PAGE)} == {*_DEFINED}


def test_the_files_are_those_of_the_version_that_is_named() -> None:
    """Where that version is installed; another one may have other files."""
    for peer, name in PEERS.items():
        (version,) = re.findall(rf"\| {peer}(?: `Lock`)? ([\d.]+) ", PAGE)
        with suppress(metadata.PackageNotFoundError):
            installed = metadata.distribution(name)
            if f"{installed.version}.".startswith(f"{version}."):
                files = {str(each) for each in installed.files or []}
                assert _modules_of(peer) <= files
                assert not installed.entry_points.select(group="console_scripts")


def _modules_of(peer: str) -> set[str]:
    """Without what is not installed: the files that make the package, and a folder."""
    paths = [
        url.partition("/HEAD/")[2] for name, url in _DEFINED.items() if name.split()[0] == peer
    ]
    assert paths, peer
    return {path.removeprefix("src/") for path in paths if "/" in path and path.endswith(".py")}
