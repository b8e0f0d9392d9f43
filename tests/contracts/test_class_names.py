"""One class name has one meaning in the package.

A reader who meets `Place` should not have to ask which of four it is. A name may stand in several
files where each of them has the same thing for its own engine, driver or framework.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable

from tests.contracts.sources import sources

PARTS = {
    "AsyncioBackend": "an engine's backend for tasks",
    "BlockingBackend": "an engine's backend for threads",
    "BlockingConnection": "a connection whose commands block",
    "ClaimState": "a claim from its first attempt to its release, as an engine knows it",
    "Connection": "one connection to one server",
    "Contender": "somebody who holds a lock or waits for it, as an engine lists them",
    "Held": "a claim's hold, in an engine whose state is ours",
    "Link": "the way to a server, as long as there is one",
    "Node": "a server among several, and ZooKeeper's word for what it stores",
    "NotSent": "an error: nothing has left us",
    "Outcome": "what an attempt came to",
    "Pool": "idle connections",
    "Recipe": "what is sent to an engine, and what its replies mean",
    "Refused": "an error: the server, or the lock, said no",
    "Reply": "a server's answer, taken apart",
    "Row": "one line of a table",
    "Run": "a command, or a piece of work, from its start to its end",
    "Script": "what a Redis server runs",
    "Seen": "something as it was when it was read",
    "Server": "how an engine's backend sends to its server",
    "Session": "a session of a server",
    "SessionPool": "the sessions of a driver: kept for the next, and bounded",
    "Settings": "what was asked for, checked",
    "Skipped": "the result of work that was not run",
    "Stream": "a connection on which several ask at once",
    "Url": "a URL, taken apart",
    "Verdict": "what a rule came to",
    "Waiting": "a claim in line, in an engine whose state is ours",
    "WaitingClaim": "a claim that stands in an engine's line",
    "Call": "a statement with its arguments",
    "Answer": "what comes back for a command",
    "Bell": "what a waiter sleeps on",
    "Guard": "a mutex that knows its thread: the port, and the one of threads",
    "Lock": "a lock, in a face, or in somebody else's shape",
    "RedisGuard": "the guard for Redis, in each colour",
    "SqlGuard": "the guard for a database, in each colour",
    "Rule": "what has to hold, or is to be done",
    "Step": "one thing after another",
}
ETCD = {"Aside", "Event", "Lease", "Target", "Watch", "Watcher"}
"""Words of etcd's own, which mean something else in other places."""
TWO_MEANINGS = {"Demand", "Line", "Listening", "Place", "Places"}
"""They should not be here: rename one of each when its file is changed."""
FACES = {"blocking", "aio"}


def _classes() -> list[tuple[str, str]]:
    """Each with the file that it stands in; those of one file's own use begin with `_`."""
    return [
        (node.name, source.name.removeprefix("locknut/"))
        for source in sources()
        for node in ast.walk(source.tree)
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]


def _shared(classes: Iterable[tuple[str, str]]) -> dict[str, set[str]]:
    files: dict[str, set[str]] = defaultdict(set)
    for name, file in classes:
        files[name].add(file)
    return {
        name: found
        for name, found in files.items()
        if len(found) > 1 and not {file.partition("/")[0] for file in found} <= FACES
    }


def test_one_class_name_has_one_meaning() -> None:
    wrong = {name: files for name, files in _shared(_classes()).items() if name not in PARTS}
    assert not wrong.keys() - ETCD - TWO_MEANINGS
    assert all(any("/etcd/" in file for file in wrong[name]) for name in ETCD)


def test_every_exception_is_needed() -> None:
    assert not {*PARTS, *ETCD, *TWO_MEANINGS} - _shared(_classes()).keys()


def test_a_name_with_two_meanings_is_noticed() -> None:
    assert _shared([("Place", "core/meeting.py"), ("Place", "drivers/mysql/pool.py")])
    assert not _shared([("Lock", "aio/primitives.py"), ("Lock", "blocking/primitives.py")])
    assert not _shared([("Place", "core/meeting.py"), ("Place", "core/meeting.py")])
