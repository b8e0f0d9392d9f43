"""The recipes that need a framework do what the page says, in a program that uses it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import locknut
from tests.contracts.documentation import Block, blocks_of
from tests.contracts.sources import ROOT

HANGS = 60.0


def recipe(words: str) -> Block:
    """The block of the page that has these words."""
    (found,) = [each for each in blocks_of(ROOT / "docs" / "recipes.md") if words in each.code]
    return found


@contextmanager
def program(folder: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A Python that has its locks in `folder`, and does not outlive the test."""
    path = os.pathsep.join([str(folder), *filter(None, sys.path)])
    environment = {**os.environ, "PYTHONPATH": path, "LOCKNUT_URL": f"file://{folder}/locks"}
    with subprocess.Popen(
        [sys.executable, *words],
        cwd=folder,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as started:
        try:
            yield started
        finally:
            started.kill()


def ends_well(started: subprocess.Popen[str]) -> None:
    said, _ = started.communicate(timeout=HANGS)
    assert started.returncode == 0, said


def until_waiters(locks: locknut.Locks, name: str, count: int) -> None:
    give_up = time.monotonic() + HANGS
    while len(locks.info(name).waiters) < count:
        assert time.monotonic() < give_up, f"{count} should wait for {name}"
        time.sleep(0.01)


FASTAPI = """
import locknut
from fastapi.testclient import TestClient

with TestClient(app) as client:
    assert client.post("/invoices/7/send").json() == {"sent": 7}
    with locknut.lock("invoice:7"):
        assert client.post("/invoices/7/send").status_code == 409
        assert client.post("/invoices/8/send").status_code == 200
    assert client.get("/ready").json() == {"locks": "file"}

with TestClient(app) as client:
    app.state.locks = aio.connect("redis://127.0.0.1:1")
    assert client.get("/ready").status_code == 503
"""


def test_fastapi_answers_busy_and_ready(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(recipe("FastAPI(").code + FASTAPI)
    with program(tmp_path, "shop.py") as shop:
        ends_well(shop)


CELERY = """
other = locknut.connect()
with other.lock("report:monday"), other.lock("order:42"):
    assert report.apply(args=["monday"]).get() is None
    assert report.apply(args=["tuesday"]).get() == "report of tuesday"
    app.conf.task_eager_propagates = False
    retried = charge.apply(args=[42], retries=10)           # the last try that it has
    assert isinstance(retried.result, locknut.AcquireTimeout), retried.result
"""


def test_celery_skips_and_comes_back_later(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(recipe("Celery(").code + CELERY)
    with program(tmp_path, "shop.py") as shop:
        ends_well(shop)


SETTINGS = """
INSTALLED_APPS = ["shop"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "db.sqlite3"}}
SECRET_KEY = "only a test"
"""
MIGRATION = """
from django.db import migrations

def migrate(apps, schema_editor):
    with open("migrated", "a") as file:
        file.write("once ")

class Migration(migrations.Migration):
    dependencies = []
    operations = [migrations.RunPython(migrate)]
"""


def test_django_migrates_once(tmp_path: Path) -> None:
    (tmp_path / "settings.py").write_text(SETTINGS)
    for name, text in [
        ("__init__.py", ""),
        ("migrations/__init__.py", ""),
        ("migrations/0001_begin.py", MIGRATION),
        ("management/__init__.py", ""),
        ("management/commands/__init__.py", ""),
        ("management/commands/migrate.py", recipe("as Migrate").code),
    ]:
        file = tmp_path / "shop" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    command = ("-m", "django", "migrate", "--settings=settings", "--noinput")
    with locknut.connect(f"file://{tmp_path}/locks") as locks, ExitStack() as stack:
        lease = locks.lock("migrate").acquire()
        assert lease is not None
        containers = [stack.enter_context(program(tmp_path, *command)) for _ in range(2)]
        until_waiters(locks, "migrate", 2)
        assert not (tmp_path / "migrated").exists()
        lease.release()
        for container in containers:
            ends_well(container)
    assert (tmp_path / "migrated").read_text() == "once "


LEADING = """
def work(fence):
    print(fence, flush=True)
    stop.wait(0.05)

stop = threading.Event()
campaign(locknut.connect(), work, stop)
"""


def test_a_stand_in_takes_over(tmp_path: Path) -> None:
    whole = recipe("steps = threading").code
    (tmp_path / "candidate.py").write_text(whole.partition("locks = ")[0] + LEADING)
    with program(tmp_path, "candidate.py") as leader:
        fence = told(leader)
        with program(tmp_path, "candidate.py") as stand_in:
            with locknut.connect(f"file://{tmp_path}/locks") as locks:
                until_waiters(locks, "leader", 1)
            leader.kill()
            assert told(stand_in) > fence


def told(leader: subprocess.Popen[str]) -> int:
    assert leader.stdout is not None
    return int(leader.stdout.readline())
