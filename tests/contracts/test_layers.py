"""Arrows point one way: `cli, dashboard, terminal -> observer -> faces -> core <- runtimes ...`.

Backends speak with their servers through `drivers`, which know nothing of locks.
"""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Iterator

from tests.contracts.sources import Source, sources
from tests.parsing import parse

IMPURE = frozenset({
    "asyncio", "concurrent", "ctypes", "fcntl", "io", "logging", "multiprocessing", "os", "pathlib",
    "queue", "random", "secrets", "select", "selectors", "signal", "socket", "ssl", "subprocess",
    "sys", "tempfile", "threading", "time",
})  # fmt: skip
"""What the core reaches through a port, or not at all."""

DRIVERS = frozenset({
    "aiomcache", "aiomysql", "asyncmy", "asyncpg", "emcache", "etcd3", "grpc", "hiredis", "kazoo",
    "psycopg", "pymemcache", "pymysql", "redis", "valkey",
})  # fmt: skip

FACES = "faces"
MAY_IMPORT = {
    "errors": {"errors"},
    "core": {"core", "errors"},
    "runtimes": {"runtimes", "core", "errors"},
    "drivers": {"drivers", "errors", "runtimes"},
    "backends": {"backends", "drivers", "core", "errors", "runtimes"},
    "guards": {"guards", "core", "errors"},
    FACES: {FACES, "core", "runtimes", "errors"},
    "cli": {"cli", FACES, "errors"},
    "observer": {"observer", FACES, "errors"},
    "dashboard": {"dashboard", "observer", FACES, "errors"},
    "terminal": {"terminal", "observer", FACES, "errors"},
    "compat": {"compat", FACES, "core", "runtimes", "errors"},
    "contrib": {"contrib", "guards", FACES, "errors"},
    "testing": {"testing", FACES, "core", "runtimes", "backends", "drivers", "guards", "errors"},
}
"""Which layer may know which; files at the top of the package are the faces."""

ALLOWED = {
    "backends": ("locknut.urls.Url",),  # the address an engine is opened with
    "drivers": (
        "locknut.urls.Url",  # where the servers are
        "locknut.core.validation",  # an option of a URL is refused in the same words everywhere
    ),
    "cli": (
        "locknut.core.values",  # the vocabulary that `locknut` hands on
        "locknut.core.validation",  # "1m30s" reads the same everywhere
        "locknut.core.plain_text",  # and so does what others wrote
        "locknut.runtimes.clock",  # there is one clock
        "locknut.runtimes.cpython",  # no interrupt becomes another error in a thread's start
        "locknut.testing.trial",  # what `conformance` prints
        "locknut.dashboard",  # what `dash` serves
        "locknut.terminal.top_app",  # what `top` shows
    ),
    # Holders, and the times that they hold, are written the same everywhere.
    "observer": (
        "locknut.cli.messages",
        "locknut.core.families",
        "locknut.core.wait_circles",  # whether listings that were made anyway show a deadlock
        "locknut.runtimes.cpython",  # as above
    ),
    "dashboard": (
        "locknut.cli.messages",
        "locknut.cli.ls",  # what is exported of a lock is what `ls --json` prints
    ),
    "terminal": ("locknut.cli.messages", "locknut.cli.ls"),
    "contrib": ("locknut.core.validation",),  # as for the command line
    "guards": ("locknut.runtimes.descriptors",),  # no file of ours is ever stdout
}
"""The few things that are known across a border, and why."""

DOORS = {
    "locknut.redlock": "locknut.backends.redlock",
    "locknut.compat.redis_py.client_locks": "locknut.backends.redis",
}
"""What users reach of an engine beyond what every engine has: one module of the faces each."""


def layer(module: str) -> str:
    part = "".join(module.split(".")[1:2]).replace("__main__", "cli")
    return part if part in MAY_IMPORT else FACES


def imported(*folders: str) -> Iterator[tuple[Source, str, str]]:
    """Every import of these folders, or of all: by which file, of what, and how that is told."""
    for source in sources(*folders):
        for line, name in source.imports:
            yield source, name, f"{source}:{line} imports {name}"


def test_arrows_point_one_way() -> None:
    wrong = [
        f"{told}, but {own} may know only {sorted(MAY_IMPORT[own])}"
        for source, name, told in imported()
        if name.split(".")[0] == "locknut"
        and layer(name) not in MAY_IMPORT[own := layer(source.module)]
        and not name.startswith((*ALLOWED.get(own, ()), *_behind(source.module)))
    ]
    assert not wrong


PUBLIC = (
    *("locknut", "locknut.aio", "locknut.errors", "locknut.metrics"),
    *("locknut.guards.sql", "locknut.guards.sql.aio"),
)


ALSO_KNOWN = {
    "locknut.core.validation.Duration": "durations as everywhere",
    "locknut.core.validation.seconds": "the same",
    "locknut.faces.locks_base.Decoration": "names by template, and skips that are told",
    "locknut.faces.options.LockKeywords": "the options that all locks have",
    "locknut.faces.options.OnLost": "the same",
    "locknut.faces.options.check_options": "the same",
}
"""What decorators of ours share, and why; others would have to write it again."""


def test_contrib_knows_the_public_names_alone() -> None:
    """What a framework needs of us, anybody could have written."""
    public = {name for each in PUBLIC for name in (each, *_public_names(each))} | set(ALSO_KNOWN)
    wrong = [
        told
        for _, name, told in imported("contrib")
        if name.split(".")[0] == "locknut"
        and not name.startswith("locknut.contrib.")
        and name not in public
    ]
    assert not wrong


def _public_names(module: str) -> list[str]:
    found = importlib.import_module(module)
    return [f"{module}.{name}" for name in (*getattr(found, "__all__", dir(found)), "aio")]


def _behind(door: str) -> tuple[str, ...]:
    return (DOORS[door],) if door in DOORS else ()


def test_redlock_is_known_behind_its_door_alone() -> None:
    """And to the verb that goes through it. Prose may mention it, and so may the table of URLs."""
    verb = {"locknut.cli.redlock_", "locknut.cli.verbs", "locknut.cli.engine_options"}
    wrong = [
        f"{source} knows {name}"
        for source in sources()
        if source.module not in {"locknut.redlock", *verb} and layer(source.module) != "backends"
        for name in (*_identifiers(source.tree), *(name for _, name in source.imports))
        if "redlock" in name.lower()
    ]
    assert not wrong


def _identifiers(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name


def test_the_core_does_not_speak_of_redlock_or_its_nodes() -> None:
    (values,) = [source for source in sources("core") if source.module == "locknut.core.values"]
    text = values.path.read_text(encoding="utf-8").lower()
    assert not [word for word in ("redlock", "node", "vote") if word in text]


def test_the_package_does_not_know_its_tests() -> None:
    """They are not in the wheel, and neither is the simulator."""
    assert not [told for _, name, told in imported() if name.split(".")[0] == "tests"]


def test_the_core_is_pure() -> None:
    wrong = IMPURE | DRIVERS
    assert not [told for _, name, told in imported("core") if name.split(".")[0] in wrong]


def test_drivers_are_known_to_their_engine_alone() -> None:
    wrong = [
        told
        for source, name, told in imported()
        if layer(source.module) not in {"backends", "compat", "drivers", "guards", "testing"}
        and name.split(".")[0] in DRIVERS
    ]
    assert not wrong


SHARED = {
    "redlock": (
        "locknut.backends.redis.lock_keys",
        "locknut.backends.redis.recipe",
        "locknut.backends.redis.server_health",
    )
}
"""What an engine takes from another: a vote at a node of a Redlock is named, and written, as a hold
of `redis:` is, and its nodes are good or bad servers for the same reasons."""


def engine_of(module: str) -> str:
    """`redis` of `locknut.backends.redis.recipe`."""
    return "".join(module.split(".")[2:3])


def test_engines_do_not_know_each_other() -> None:
    wrong = [
        told
        for source, name, told in imported("backends")
        if name.startswith("locknut.backends.")
        and engine_of(name) != (own := engine_of(source.module))
        and not name.startswith(SHARED.get(own, ()))
    ]
    assert not wrong


OWN = {
    "backends.etcd": {"locknut.drivers.etcd"},
    "backends.memcached": {"locknut.drivers.memcached"},
    "backends.redis": {"locknut.drivers.redis", "hiredis"},
    "backends.redlock": {"locknut.drivers.redis", "hiredis"},
    "backends.zookeeper": {"kazoo"},
    "backends.sql.mysql": {"locknut.drivers.mysql", "pymysql"},
    "backends.sql.postgresql": {"locknut.drivers.postgresql", "psycopg"},
    "drivers.etcd": {"locknut.drivers.etcd"},
    "drivers.memcached": {"locknut.drivers.memcached"},
    "drivers.mysql": {"locknut.drivers.mysql", "pymysql"},
    "drivers.postgresql": {"locknut.drivers.postgresql", "psycopg"},
    "drivers.redis": {"locknut.drivers.redis", "hiredis"},
}
"""To which server an engine, or a driver, leads, and the one package that it needs. Whatever is not
listed leads to none."""
FOR_ALL = {
    f"locknut.drivers.{each}"
    for each in ("connection_places", "connection_pool", "loop_workers", "server_urls")
}
"""Of drivers, what knows no server."""


def servers_known(source: Source) -> set[str]:
    """Drivers and packages that are not of the standard library."""
    tops = {name for _, name in source.imports if name.split(".")[0] not in sys.stdlib_module_names}
    tops = {name for name in tops if not name.startswith("locknut.") or layer(name) == "drivers"}
    return {
        ".".join(name.split(".")[: 3 if name.startswith("locknut.") else 1]) for name in tops
    } - FOR_ALL


def test_an_engine_knows_its_own_driver_alone() -> None:
    """Nobody needs a package for an engine that is not used, and some need none at all."""
    wrong = []
    for source in sources("backends", "drivers"):
        own = {name for name in OWN if source.module.startswith(f"locknut.{name}")}
        allowed = set[str]().union(*(OWN[name] for name in own))
        wrong += [f"{source} knows {name}" for name in servers_known(source) - allowed]
    assert not wrong


def test_what_is_listed_of_an_engine_is_in_use() -> None:
    for name, allowed in OWN.items():
        found = [servers_known(source) for source in sources(name.replace(".", "/"))]
        assert set[str]().union(*found) == allowed, name


def test_validity_is_never_judged_by_the_wall_clock() -> None:
    """Nor by `time.monotonic`, which stops in suspend: there is one clock (S20)."""
    clocks = {"time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "now", "utcnow"}
    wrong = [
        f"{source}:{node.lineno}"
        for source in sources("core", "runtimes")
        if source.module != "locknut.runtimes.clock"
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Attribute)
        and node.attr in clocks
        and isinstance(node.value, ast.Name)
        and node.value.id in {"time", "datetime"}
    ]
    assert not wrong


def test_the_tests_of_layers_can_fail() -> None:
    assert layer("locknut.core.values") == "core"
    assert layer("locknut") == layer("locknut.aio") == layer("locknut.urls.Url") == FACES
    assert layer("locknut.blocking.lease.Lease") == layer("locknut.faces") == FACES
    assert [*_identifiers(parse("def redlock(nodes): vote.cast"))] == [
        *("redlock", "nodes", "cast", "vote")
    ]
    assert "backends" not in MAY_IMPORT["core"] | MAY_IMPORT["cli"] | MAY_IMPORT[FACES]
