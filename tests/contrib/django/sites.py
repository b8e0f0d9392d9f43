"""A site of Django in a folder, with one app `shop` and two migrations that a test can watch."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from tests.servers.databases import Database

MIGRATE = ("-m", "django", "migrate", "--settings=settings", "--noinput", "--with-lock")
SETTINGS = """
{driver}
INSTALLED_APPS = {apps!r}
DATABASES = {{"default": {database!r}}}
SECRET_KEY = "only a test"
LOCKNUT = {{"LABEL": "a pod", "URL": {url!r}}}
"""
MIGRATION = '''
"""Told in the folder: that it began, and that it is done. It stops where the test wants it to."""
import os, time
from pathlib import Path
from django.db import migrations, models

FOLDER = Path({folder!r})

def tell(what):
    with open(FOLDER / "told", "a") as file:
        file.write(f"{{what}} {name}\\n")

def body(apps, schema_editor):
    tell("began")
    {body}
    tell("ended")

class Migration(migrations.Migration):
    dependencies = {after!r}
    operations = [
        migrations.CreateModel("{name}", [("id", models.AutoField(primary_key=True))]),
        migrations.RunPython(body),
    ]
'''
STOPS = """(FOLDER / f"inside-{os.getpid()}").touch()
    while (FOLDER / "stop").exists():
        time.sleep(0.01)"""
OTHER = """
from django.core.management.commands.migrate import Command as Migrate

class Command(Migrate):
    def handle(self, *args, **options):
        print("{name} was here", sorted(set(options) & {{"with_lock", "lock_timeout"}}))
        return super().handle(*args, **options)
"""


BACKENDS = {"postgresql": "postgresql", "mariadb": "mysql", "mysql": "mysql"}
PYMYSQL = "import pymysql; pymysql.install_as_MySQLdb()"
"""Django's own choice for MySQL and MariaDB has to be compiled; this one stands in for it."""


def database_settings(found: Database) -> dict[str, Any]:
    """As `DATABASES` has it."""
    return {
        "ENGINE": f"django.db.backends.{BACKENDS[found.server.scheme]}",
        "NAME": found.name,
        "USER": found.user,
        "PASSWORD": found.password,
        "HOST": found.server.host,
        "PORT": found.server.port,
    }


class Site:
    """One folder."""

    def __init__(
        self,
        folder: Path,
        url: str,
        database: dict[str, Any] | None = None,
        apps: tuple[str, ...] = ("locknut.contrib.django", "shop"),
        body: str = STOPS,
    ) -> None:
        self.folder = folder
        database = database or {"ENGINE": "django.db.backends.sqlite3", "NAME": "data.db"}
        driver = PYMYSQL if "mysql" in database["ENGINE"] else ""
        settings = SETTINGS.format(apps=list(apps), database=database, url=url, driver=driver)
        (folder / "settings.py").write_text(settings)
        self.write("shop/__init__.py", "")
        self.write("shop/migrations/__init__.py", "")
        self.migration("0001_first", "first", [], body)
        self.migration("0002_second", "second", [("shop", "0001_first")], "pass")

    def write(self, name: str, code: str) -> None:
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(code)

    def migration(self, file: str, name: str, after: list[Any], body: str) -> None:
        code = MIGRATION.format(folder=str(self.folder), name=name, after=after, body=body)
        self.write(f"shop/migrations/{file}.py", code)

    def overrides_migrate(self, app: str) -> None:
        """This app has a `migrate` of its own."""
        for each in ("", "management/", "management/commands/"):
            self.write(f"{app}/{each}__init__.py", "")
        self.write(f"{app}/management/commands/migrate.py", OTHER.format(name=app))

    @property
    def told(self) -> list[str]:
        file = self.folder / "told"
        return file.read_text().splitlines() if file.exists() else []

    @property
    def applied(self) -> list[str]:
        """On SQLite."""
        with sqlite3.connect(self.folder / "data.db") as connection:
            asked = "SELECT name FROM django_migrations WHERE app = 'shop' ORDER BY id"
            return [row[0] for row in connection.execute(asked)]
