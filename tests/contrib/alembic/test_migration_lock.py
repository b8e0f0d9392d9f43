"""The lock of env.py: no wait at head, a bound, one hold in one program, a stop at a loss."""

from __future__ import annotations

import re
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.util import CommandError

import locknut
from locknut.contrib.alembic import migration_lock
from tests.contrib.alembic.projects import Project
from tests.contrib.alembic.replicas import until_exists, until_waiters
from tests.guards.sql_databases import KINDS
from tests.servers.databases import Database

LOSES = 'assert context.config.attributes["lease"].lost.wait(60)'


@pytest.fixture
def locks(tmp_path: Path) -> Iterator[locknut.Locks]:
    with locknut.connect(f"file://{tmp_path}/locks") as made:
        yield made


@pytest.fixture
def another(tmp_path: Path) -> Iterator[locknut.Lock]:
    """The lock, as another process has it."""
    with locknut.connect(f"file://{tmp_path}/locks") as made:
        yield made.lock("migrate")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path, f"sqlite:///{tmp_path}/data.db")


def in_thread(function: Any, *words: Any) -> tuple[threading.Thread, list[BaseException]]:
    raised: list[BaseException] = []

    def body() -> None:
        try:
            function(*words)
        except BaseException as error:  # noqa: BLE001 -- the test looks at it
            raised.append(error)

    started = threading.Thread(target=body)
    started.start()
    return started, raised


def test_nobody_waits_at_head(
    project: Project, locks: locknut.Locks, another: locknut.Lock
) -> None:
    project.upgrade(locks=locks)
    config = project.config(locks=locks, timeout=0)
    with another:
        command.upgrade(config, "head")
        assert config.attributes["lease"] is None
        command.upgrade(config, "heads")


def test_what_only_looks_does_not_wait(
    project: Project,
    locks: locknut.Locks,
    another: locknut.Lock,
    capsys: pytest.CaptureFixture[str],
) -> None:
    config = project.config(locks=locks, timeout=0)
    with another:
        command.current(config)
        command.upgrade(config, "head", sql=True)
        assert "CREATE TABLE IF NOT EXISTS first" in capsys.readouterr().out
        with pytest.raises(locknut.AcquireTimeout):
            command.upgrade(config, "head")
    command.upgrade(config, "head")
    with another, pytest.raises(CommandError, match="MetaData"):
        command.check(config)  # it would compare them, if there were any


@pytest.mark.parametrize("way", ["downgrade", "stamp", "older"])
def test_who_changes_something_waits_at_head_too(
    project: Project, locks: locknut.Locks, another: locknut.Lock, way: str
) -> None:
    project.upgrade(locks=locks)
    config = project.config(locks=locks, timeout=0)
    ways: dict[str, Any] = {
        "downgrade": lambda: command.downgrade(config, "-1"),
        "stamp": lambda: command.stamp(config, "first"),
        "older": lambda: command.upgrade(config, "first"),
    }
    with another, pytest.raises(locknut.AcquireTimeout):
        ways[way]()
    assert project.version == ["second"]


def test_a_branch_that_another_one_depends_on_counts_as_head(
    project: Project, locks: locknut.Locks, another: locknut.Lock
) -> None:
    """The database does not list it: the branch that depends on it stands for both."""
    file = project.folder / "scripts" / "versions" / "side.py"
    project.revision("side", None, "pass")
    file.write_text(file.read_text().replace("None, None, None", "None, None, 'second'"))
    config = project.config(locks=locks, timeout=0)
    command.upgrade(config, "heads")
    assert project.version == ["side"]
    with another:
        command.upgrade(config, "heads")
    assert config.attributes["lease"] is None


def test_a_wait_has_a_bound_and_says_what_to_do(
    project: Project, locks: locknut.Locks, another: locknut.Lock
) -> None:
    with another, pytest.raises(locknut.AcquireTimeout) as refused:
        project.upgrade(locks=locks, timeout=0.05)
    said = str(refused.value)
    assert re.search("another process is still at it: not acquired within .* held by ", said)
    assert "locknut break migrate" in said
    assert "[lock 'migrate' on file]" in said
    assert project.told == []


def test_the_wait_is_bounded_without_a_word() -> None:
    import inspect

    assert inspect.signature(migration_lock).parameters["timeout"].default == "10m"


def test_outside_of_env_nobody_looks_whether_there_is_anything_to_do(
    project: Project, locks: locknut.Locks, another: locknut.Lock
) -> None:
    project.upgrade(locks=locks)
    with another, pytest.raises(locknut.AcquireTimeout), migration_lock(locks=locks, timeout=0):
        raise AssertionError


def test_another_name_is_another_lock(locks: locknut.Locks, another: locknut.Lock) -> None:
    with another, migration_lock("billing", locks=locks, timeout=0) as lease:
        assert lease is not None
        assert lease.name == "billing"


def test_its_ttl_is_that_of_the_lock() -> None:
    with locknut.connect("memory:") as locks, migration_lock(locks=locks, ttl="1h") as lease:
        assert lease is not None
        assert 1800 < lease.remaining <= 3600


@pytest.mark.parametrize("template", ["generic", "async"])
def test_both_wrapped_is_one_hold(tmp_path: Path, locks: locknut.Locks, template: str) -> None:
    """Around `command.upgrade` and in env.py: in a task and a greenlet, and by another Locks."""
    driver = "sqlite" if template == "generic" else "sqlite+aiosqlite"
    project = Project(tmp_path, f"{driver}:///{tmp_path}/data.db", template=template)
    with locknut.connect(f"file://{tmp_path}/locks") as other, warnings.catch_warnings():
        warnings.simplefilter("error", locknut.BlockingInLoopWarning)
        config = project.config(locks=other, timeout=0)
        with migration_lock(locks=locks, timeout=0) as outer:
            command.upgrade(config, "head")
            assert config.attributes["lease"] is outer
            assert outer is not None
            assert outer.held
        assert not locks.info("migrate").holders
    assert project.version == ["second"]


def test_an_asynchronous_env_waits_without_a_warning(
    tmp_path: Path, locks: locknut.Locks, another: locknut.Lock
) -> None:
    url = f"sqlite+aiosqlite:///{tmp_path}/data.db"
    project = Project(tmp_path, url, template="async")
    with warnings.catch_warnings():
        warnings.simplefilter("error", locknut.BlockingInLoopWarning)
        with another:
            waiting, raised = in_thread(lambda: project.upgrade(locks=locks, timeout=60))
            until_waiters(locks, 1)
        waiting.join()
    assert not raised
    assert project.version == ["second"]


def test_a_lost_outer_hold_does_not_count(project: Project, locks: locknut.Locks) -> None:
    with pytest.raises(locknut.LeaseLost), migration_lock(locks=locks) as lease:  # noqa: PT012
        assert lease is not None
        locks.force_release("migrate")
        assert lease.lost.wait(60)
        project.upgrade(locks=locks)
    assert project.told == []


def test_it_comes_after_configure(project: Project, locks: locknut.Locks) -> None:
    env = project.folder / "scripts" / "env.py"
    env.write_text(env.read_text().replace("target_metadata = None", "with migration_lock(): pass"))
    with pytest.raises(locknut.ConfigurationError, match=r"after context\.configure"):
        project.upgrade(locks=locks)


@pytest.mark.parametrize(
    "server",
    [
        pytest.param("sqlite", marks=pytest.mark.sqlite),
        pytest.param("mariadb", marks=pytest.mark.mariadb),
        pytest.param("mysql", marks=[pytest.mark.mysql, pytest.mark.slow]),
    ],
)
def test_a_loss_stops_before_the_next_revision(
    request: pytest.FixtureRequest, tmp_path: Path, locks: locknut.Locks, server: str
) -> None:
    """What was committed stays: `first` is recorded, and `second` was not begun."""
    url = f"sqlite:///{tmp_path}/data.db"
    if server != "sqlite":
        url = KINDS[server](request.getfixturevalue(f"{server}_database")).url(awaits=False)
    project = Project(tmp_path, url, body=LOSES)
    _lose(project, locks)
    assert project.told == ["began first", "ended first"]
    assert (project.tables, project.version) == ({"first"}, ["first"])


@pytest.mark.postgresql
def test_a_loss_takes_everything_back_where_ddl_is_transactional(
    tmp_path: Path, locks: locknut.Locks, postgresql_database: Database
) -> None:
    url = postgresql_database.url.replace("postgresql:", "postgresql+psycopg:")
    project = Project(tmp_path, url, body=LOSES)
    _lose(project, locks)
    assert project.told == ["began first", "ended first"]
    assert project.tables == set()


@pytest.mark.postgresql
def test_a_loss_in_the_last_revision_is_not_committed(
    tmp_path: Path, locks: locknut.Locks, postgresql_database: Database
) -> None:
    url = postgresql_database.url.replace("postgresql:", "postgresql+psycopg:")
    project = Project(tmp_path, url, body="pass")
    project.revision("second", "first", LOSES)
    _lose(project, locks)
    assert project.told[-1] == "ended second"
    assert project.tables == set()


def _lose(project: Project, locks: locknut.Locks) -> None:
    running, raised = in_thread(lambda: project.upgrade(locks=locks))
    until_exists(project.folder / "told")
    assert locks.force_release("migrate", reason="a test")
    running.join()
    (error,) = raised
    assert isinstance(error, locknut.LeaseLost), error
