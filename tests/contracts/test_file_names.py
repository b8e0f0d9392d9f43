"""One file name has one meaning in the package, and a gerund names an algorithm.

A newcomer who reads `backend.py` in a traceback may guess which engine it belongs to. With
`waiting.py` in five packages, as it once was, there is nothing to guess from.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import PurePosixPath

from tests.contracts.sources import sources

PARTS = {
    "aio": "the asyncio part of an engine, driver, guard or framework; the face is a package",
    "sync": "the blocking connection of an engine or a driver",
    "engine": "what a URL leads to: a maker of backends in both colours",
    "backend": "an engine's implementation of `Backend`",
    "recipe": "what is sent to an engine, and what its replies mean",
    "requests": "what is asked of a server, and what its answers are",
    "settings": "what the URL of an engine or a driver says",
    "scripts": "the Lua scripts of an engine",
    "checkup": "what `doctor` looks at on an engine",
    "guard": "what the guards of both colours have in common",
    "session_pool": "the sessions of a driver with its database: kept for the next, and bounded",
    "notes": "the note that the holder of a broken lock gets",
    "waiting_claims": "the claims that wait in an engine's line",
}
"""What every engine, driver or guard may have, each with the same meaning everywhere."""

FACES = frozenset(
    {
        "barriers",
        "decorator",
        "leadership",
        "lease",
        "lock_group",
        "locks",
        "primitives",
        "scheduled_run",
        "uses",
    }
)
"""What both faces have, because they are equal: see `test_faces.py`."""

GERUND_FOLDERS = frozenset({"core", "runtimes"})
"""Where the algorithms are. Elsewhere a file is named after the thing that it holds."""
GERUNDS = {
    "aio/belonging.py": "which task a hold belongs to: the rule, not a thing",
    "opening.py": "from settings to a client: assembly, run once for each Locks",
    "pickling.py": "Python's own word",
    "drivers/redis/cluster/routing.py": "the usual noun",
}
"""Gerunds outside of these folders, and why each is kept."""

Name = PurePosixPath


def _names() -> list[Name]:
    return [Name(source.name).relative_to("locknut") for source in sources()]


def _shared(names: Iterable[Name]) -> list[str]:
    places: dict[str, list[Name]] = defaultdict(list)
    for name in names:
        if not name.stem.startswith("__"):
            places[name.stem].append(name)
    wrong = []
    for stem, found in places.items():
        folders = {name.parts[0] for name in found}
        places_of = {"backends", "compat", "contrib", "drivers", "core", "guards"}
        engines = stem in PARTS and folders <= places_of
        faces = stem in FACES and folders <= {"blocking", "aio"}
        if len(found) > 1 and not (engines or faces):
            wrong.append(f"{stem}: {', '.join(map(str, found))}")
    return wrong


def _gerunds(names: Iterable[Name]) -> list[str]:
    short = {"ping.py"}
    return [
        str(name)
        for name in names
        if name.stem.endswith("ing")
        and name.name not in short
        and name.parts[0] not in GERUND_FOLDERS
        and str(name) not in GERUNDS
    ]


def test_one_file_name_has_one_meaning() -> None:
    assert not _shared(_names())


def test_a_gerund_names_an_algorithm() -> None:
    assert not _gerunds(_names())


def test_every_exception_is_needed() -> None:
    names = _names()
    stems = [name.stem for name in names] + [name.parent.name for name in names]
    assert not [stem for stem in (*PARTS, *FACES) if stem not in stems]
    assert not set(GERUNDS) - {str(name) for name in names}


def test_a_name_with_two_meanings_is_noticed() -> None:
    twice = [Name("cli/waiting.py"), Name("backends/redis/waiting.py")]
    assert _shared(twice)
    assert _shared([Name("core/backend.py"), Name("cli/backend.py")])
    assert not _shared([Name("backends/file/backend.py"), Name("backends/redis/backend.py")])
    assert _gerunds(twice) == ["cli/waiting.py", "backends/redis/waiting.py"]
    assert not _gerunds([Name("core/waiting.py"), Name("cli/ping.py")])
