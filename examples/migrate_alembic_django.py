"""Three containers run the real `alembic upgrade head`, then Django's `migrate`: one of them does.

The migration itself waits until both others stand in the line, so that nobody is late by luck. Runs
on files of its own, or on the engine that LOCKNUT_URL names. It needs `alembic` and `django`.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import tempfile
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

from alembic import command
from alembic.config import Config

CONTAINERS = 3
WAITS = f"""
import time
import locknut

def wait_for_the_others():
    while len(locknut.info("migrate").waiters) < {CONTAINERS - 1}:
        time.sleep(0.05)
    print("MIGRATES", flush=True)
"""
REVISION = f"""
from alembic import op
{WAITS}
revision, down_revision, branch_labels, depends_on = "first", None, None, None

def upgrade():
    wait_for_the_others()
    op.execute("CREATE TABLE orders (number INTEGER PRIMARY KEY)")
"""
SETTINGS = """
INSTALLED_APPS = ["locknut.contrib.django", "shop"]
LOCKNUT = {"MIGRATE_WITH_LOCK": True}
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "django.db"}}
"""
MIGRATION = f"""
from django.db import migrations, models
{WAITS}
class Migration(migrations.Migration):
    operations = [
        migrations.RunPython(lambda *_: wait_for_the_others()),
        migrations.CreateModel("Order", [("number", models.AutoField(primary_key=True))]),
    ]
"""


def alembic_project(folder: Path) -> list[str]:
    """As `alembic init` writes it, with the one changed line of docs/one-pod-migrates.md."""
    ini, env = folder / "alembic.ini", folder / "scripts" / "env.py"
    with redirect_stdout(StringIO()):
        command.init(Config(str(ini)), str(folder / "scripts"))
    ini.write_text(
        ini.read_text().replace("driver://user:pass@localhost/dbname", "sqlite:///alembic.db")
    )
    usual = "with context.begin_transaction():"
    ours = 'with migration_lock(timeout="10m"), context.begin_transaction():'
    imported = "from locknut.contrib.alembic import migration_lock\n"
    env.write_text(imported + env.read_text().replace(usual, ours))
    (folder / "scripts" / "versions" / "first.py").write_text(REVISION)
    return ["alembic", "upgrade", "head"]


def django_site(folder: Path) -> list[str]:
    migrations = folder / "shop" / "migrations"
    migrations.mkdir(parents=True)
    for package in (migrations.parent, migrations):
        (package / "__init__.py").touch()
    (migrations / "first.py").write_text(MIGRATION)
    (folder / "settings.py").write_text(SETTINGS)
    return ["django", "migrate", "--settings=settings", "--noinput"]


def migrate(tool: list[str], folder: Path, url: str) -> list[str]:
    """Start all containers, and tell what became of each."""
    paths = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "LOCKNUT_URL": url, "PYTHONPATH": os.pathsep.join(paths)}
    crowd = [
        subprocess.Popen(
            [sys.executable, "-m", *tool],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for _ in range(CONTAINERS)
    ]
    became = []
    for container in crowd:
        said, _ = container.communicate()
        if container.returncode != 0:
            became.append(f"failed: {said}")
        else:
            became.append("migrated" if "MIGRATES" in said else "found it done")
    return sorted(became)


def main() -> None:
    expected = ["found it done"] * (CONTAINERS - 1) + ["migrated"]
    for tool in (alembic_project, django_site):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            place = os.environ.get("LOCKNUT_URL") or f"file://{folder}/locks"
            mark = "&" if "?" in place else "?"
            url = f"{place}{mark}namespace=example-{secrets.token_hex(4)}"
            words = tool(folder)
            became = migrate(words, folder, url)
        print(f"{words[0]}: {became}")
        if became != expected:
            sys.exit("NOT proved")
    print(f"Proved: of {CONTAINERS} containers one migrated, and the others found it done.")


if __name__ == "__main__":
    main()
