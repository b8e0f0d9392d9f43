"""Several `manage.py migrate --with-lock` at once: one migrates, also if the first is killed."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import locknut
from tests.contrib.alembic.replicas import ends, replica, until_exists, until_told, until_waiters
from tests.contrib.django.sites import MIGRATE, Site, database_settings
from tests.servers.databases import Database

DONE = ["began first", "ended first", "began second", "ended second"]
CHECK = ("-m", "django", "check", "--settings=settings")


@pytest.fixture
def database(request: pytest.FixtureRequest) -> dict[str, Any] | None:
    if request.param == "sqlite":
        return None
    found: Database = request.getfixturevalue(f"{request.param}_database")
    return database_settings(found)


@pytest.fixture
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if getattr(request, "param", "file") == "file":
        return f"file://{tmp_path}/locks"
    server: Any = request.getfixturevalue("redis_server")
    return f"{server.url}?namespace={tmp_path.name}"


def on(*pairs: tuple[str, str]) -> pytest.MarkDecorator:
    rows = [
        pytest.param(data, lock, marks=[getattr(pytest.mark, data), getattr(pytest.mark, lock)])
        for data, lock in pairs
    ]
    return pytest.mark.parametrize(("database", "url"), rows, indirect=True)


@on(("sqlite", "file"))
def test_one_of_several_migrates(database: Any, url: str, tmp_path: Path) -> None:
    _one_migrates(database, url, tmp_path)


@pytest.mark.slow
@on(
    ("postgresql", "file"),
    ("sqlite", "redis"),
    ("postgresql", "redis"),
    ("mariadb", "file"),
    ("mysql", "redis"),
)
def test_one_of_several_migrates_everywhere(database: Any, url: str, tmp_path: Path) -> None:
    _one_migrates(database, url, tmp_path)


def _one_migrates(database: Any, url: str, tmp_path: Path) -> None:
    site = Site(tmp_path, url, database)
    (tmp_path / "stop").touch()
    with locknut.connect(url) as locks, ExitStack() as stack:
        pods = [stack.enter_context(replica(tmp_path, "", *MIGRATE)) for _ in range(3)]
        until_waiters(locks, 2)
        until_told(lambda: site.told)
        assert site.told == ["began first"]
        (tmp_path / "stop").unlink()
        for pod in pods:
            ends(pod)
    assert site.told == DONE


def _first_is_killed(database: Any, url: str, folder: Path) -> Site:
    site = Site(folder, url, database)
    (folder / "stop").touch()
    with locknut.connect(url) as locks, ExitStack() as stack:
        first = stack.enter_context(replica(folder, "", *MIGRATE))
        until_exists(folder / f"inside-{first.pid}")
        others = [stack.enter_context(replica(folder, "", *MIGRATE)) for _ in range(2)]
        until_waiters(locks, 2)
        first.kill()
        first.wait()
        (folder / "stop").unlink()
        for pod in others:
            ends(pod)
    return site


@pytest.mark.faults
@on(("sqlite", "file"))
def test_another_takes_over_from_a_killed_one(database: Any, url: str, tmp_path: Path) -> None:
    """The database undoes what the killed one did, so the migration runs from its beginning."""
    assert _first_is_killed(database, url, tmp_path).told == ["began first", *DONE]


@pytest.mark.faults
@pytest.mark.slow
@on(("postgresql", "file"), ("sqlite", "redis"), ("postgresql", "redis"))
def test_another_takes_over_everywhere(database: Any, url: str, tmp_path: Path) -> None:
    """On `redis:` when the ttl of the killed one is over."""
    assert _first_is_killed(database, url, tmp_path).told == ["began first", *DONE]


@pytest.mark.file
@pytest.mark.sqlite
@pytest.mark.slow
def test_the_wait_has_a_bound_and_nobody_waits_at_head(url: str, tmp_path: Path) -> None:
    site = Site(tmp_path, url)
    hurried = (*MIGRATE, "--lock-timeout", "0")
    with locknut.connect(url) as locks:
        with locks.lock("migrate"), replica(tmp_path, "", *hurried) as pod:
            said = ends(pod, 1)
        assert said.startswith("CommandError: nothing was migrated here")
        assert "locknut break migrate" in said
        assert site.told == []
        with replica(tmp_path, "", *hurried) as pod:
            ends(pod)
        with locks.lock("migrate"), replica(tmp_path, "", *hurried) as pod:
            said = ends(pod)
        assert "No migrations to apply, and another process has the lock." in said
        with locks.lock("migrate"), replica(tmp_path, "", *hurried, "shop", "zero") as pod:
            ends(pod, 1)
    assert site.told == DONE


@pytest.mark.file
@pytest.mark.sqlite
def test_settings_and_options_decide_about_the_lock(url: str, tmp_path: Path) -> None:
    site = Site(tmp_path, url)
    with (tmp_path / "settings.py").open("a") as settings:
        settings.write('LOCKNUT |= {"MIGRATE_WITH_LOCK": True, "MIGRATE_TIMEOUT": 0}\n')
    migrate = MIGRATE[:-1]
    with locknut.connect(url) as locks, locks.lock("migrate"):
        with replica(tmp_path, "", *migrate) as pod:
            assert ends(pod, 1).startswith("CommandError: nothing was migrated here")
        with replica(tmp_path, "", *migrate, "--plan") as pod:
            assert "Planned operations" in ends(pod)
        with replica(tmp_path, "", *migrate, "--check") as pod:
            assert "nothing was migrated" not in ends(pod, 1)  # 1: there is something to do
        assert site.told == []
        with replica(tmp_path, "", *migrate, "--no-with-lock") as pod:
            ends(pod)
    assert site.told == DONE


LOSES = """from locknut.contrib.django import locks
    from locknut.contrib.migration_hold import _inside
    (lease,) = _inside.get().values()
    locks().force_release("migrate", reason="a test")
    assert lease.lost.wait(60)"""


@pytest.mark.file
@pytest.mark.sqlite
def test_a_loss_stops_before_the_next_migration(url: str, tmp_path: Path) -> None:
    site = Site(tmp_path, url, body=LOSES)
    with replica(tmp_path, "", *MIGRATE) as pod:
        assert "CommandError: the hold was lost" in ends(pod, 1)
    assert site.told == ["began first", "ended first"]
    assert site.applied == ["0001_first"]


@pytest.mark.file
@pytest.mark.sqlite
def test_the_next_apps_migrate_is_called(url: str, tmp_path: Path) -> None:
    apps = ("locknut.contrib.django", "first_other", "second_other", "shop")
    site = Site(tmp_path, url, apps=apps)
    site.overrides_migrate("first_other")
    site.overrides_migrate("second_other")
    with replica(tmp_path, "", *MIGRATE) as pod:
        said = ends(pod)
    assert "first_other was here []" in said
    assert "second_other was here" not in said  # as without us: the first one counts
    assert site.told == DONE


@pytest.mark.file
@pytest.mark.sqlite
def test_an_app_in_front_of_ours_is_told(url: str, tmp_path: Path) -> None:
    site = Site(tmp_path, url, apps=("other", "locknut.contrib.django", "shop"))
    site.overrides_migrate("other")
    with replica(tmp_path, "", *CHECK) as check:
        said = ends(check)
    assert "locknut.W001" in said
    assert "the command of other" in said
