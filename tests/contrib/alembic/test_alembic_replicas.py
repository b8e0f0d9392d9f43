"""Several `alembic upgrade head` at once: one migrates, also if the first is killed half-way."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import locknut
from tests.contrib.alembic.projects import Project
from tests.contrib.alembic.replicas import ends, replica, until_exists, until_told, until_waiters
from tests.guards.sql_databases import KINDS
from tests.servers.databases import Database

UPGRADE = ("-m", "alembic", "upgrade", "head")
CONCURRENTLY = """with op.get_context().autocommit_block():
        op.execute("CREATE INDEX CONCURRENTLY at_once ON first (id)")"""
DONE = ["began first", "ended first", "began second", "ended second"]


@pytest.fixture
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/data.db"
    found: Database = request.getfixturevalue(f"{request.param}_database")
    return KINDS[request.param](found).url(awaits=False)


@pytest.fixture
def locks_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "file":
        return f"file://{tmp_path}/locks"
    server: Any = request.getfixturevalue("redis_server")
    return f"{server.url}?namespace={tmp_path.name}"


def on(*pairs: tuple[str, str]) -> pytest.MarkDecorator:
    rows = [
        pytest.param(data, lock, marks=[getattr(pytest.mark, data), getattr(pytest.mark, lock)])
        for data, lock in pairs
    ]
    return pytest.mark.parametrize(("database", "locks_url"), rows, indirect=True)


@on(("sqlite", "file"), ("postgresql", "redis"))
def test_one_of_several_migrates(database: str, locks_url: str, tmp_path: Path) -> None:
    project = Project(tmp_path, database)
    (tmp_path / "stop").touch()
    with locknut.connect(locks_url) as locks, ExitStack() as stack:
        pods = [stack.enter_context(replica(tmp_path, locks_url, *UPGRADE)) for _ in range(3)]
        until_waiters(locks, 2)
        until_told(lambda: project.told)
        assert project.told == ["began first"]
        (tmp_path / "stop").unlink()
        for pod in pods:
            ends(pod)
    assert project.told == DONE
    assert project.version == ["second"]


def _first_is_killed(database: str, locks_url: str, folder: Path) -> Project:
    project = Project(folder, database)
    (folder / "stop").touch()
    with locknut.connect(locks_url) as locks, ExitStack() as stack:
        first = stack.enter_context(replica(folder, locks_url, *UPGRADE))
        until_exists(folder / f"inside-{first.pid}")
        others = [stack.enter_context(replica(folder, locks_url, *UPGRADE)) for _ in range(2)]
        until_waiters(locks, 2)
        first.kill()
        first.wait()
        (folder / "stop").unlink()
        for pod in others:
            ends(pod)
    return project


@pytest.mark.faults
@on(("postgresql", "file"))
@pytest.mark.slow
def test_another_takes_over_from_a_killed_one(
    database: str, locks_url: str, tmp_path: Path
) -> None:
    """PostgreSQL undoes what the killed one did, so the revision runs again from its beginning."""
    project = _first_is_killed(database, locks_url, tmp_path)
    assert project.told == ["began first", *DONE]
    assert project.tables == {"first", "second"}


@pytest.mark.faults
@pytest.mark.slow
@on(
    ("sqlite", "file"),
    ("sqlite", "redis"),
    ("postgresql", "redis"),
    ("mariadb", "file"),
    ("mysql", "redis"),
)
def test_another_takes_over_everywhere(database: str, locks_url: str, tmp_path: Path) -> None:
    """On `redis:` when the ttl of the killed one is over."""
    project = _first_is_killed(database, locks_url, tmp_path)
    assert project.told == ["began first", *DONE]
    assert project.version == ["second"]


@pytest.mark.file
@pytest.mark.sqlite
def test_locknut_run_around_it_does_not_deadlock(tmp_path: Path) -> None:
    project = Project(tmp_path, f"sqlite:///{tmp_path}/data.db")
    words = ("-m", "locknut", "run", "-n", "migrate", "--", sys.executable, *UPGRADE)
    with replica(tmp_path, f"file://{tmp_path}/locks", *words) as pod:
        ends(pod)
    assert project.told == DONE


@pytest.mark.postgresql
def test_an_index_is_made_concurrently_while_another_waits(
    tmp_path: Path, postgresql_database: Database
) -> None:
    """The lock is in the same database, and a transaction keeps its snapshot until it ends: whoever
    waited for the lock in a transaction would be waited for by the index, for ever.
    """
    url = postgresql_database.url
    project = Project(tmp_path, url.replace("postgresql:", "postgresql+psycopg:"))
    project.revision("second", "first", CONCURRENTLY)
    ini = tmp_path / "alembic.ini"
    level = "sqlalchemy.isolation_level = REPEATABLE READ\nsqlalchemy.url"
    ini.write_text(ini.read_text().replace("sqlalchemy.url", level, 1))
    with locknut.connect(url) as locks, ExitStack() as stack:
        project.upgrade("first", locks=locks)
        with locks.lock("migrate"):
            pods = [stack.enter_context(replica(tmp_path, url, *UPGRADE)) for _ in range(2)]
            until_waiters(locks, 2)
        for pod in pods:
            ends(pod)
    assert project.told == DONE
