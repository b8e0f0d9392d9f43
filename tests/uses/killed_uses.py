"""What is copied for each use, made into a program whose processes a test kills in the middle.

Only this is changed in the text of a page: at the place of the reader's work stands the program
`job`, names and URLs are those of the test, and some times are shorter.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg

import locknut
from tests.contracts.most_wanted import Place, copied
from tests.uses.hosts import Hosts

RECIPES, TASKS, ONCE = "docs/recipes.md", "docs/tasks.md", "docs/once.md"
MIGRATES, WEB = "docs/one-pod-migrates.md", "docs/web.md"
RUN_JOB = "os.system('job')"
SHORT = "ttl=3"

Lay = Callable[[Hosts, str], list[str]]
"""Puts the program into the folder of the hosts, and returns the command that starts it."""


@contextmanager
def nobody(_: locknut.Locks) -> Iterator[None]:
    """Nobody else holds anything."""
    yield


@dataclass(frozen=True, kw_only=True)
class Use:
    """How it is started, what one does that comes while another is in the middle, and what holds
    after two were killed and a third one has finished.
    """

    lay: Lay
    changes: dict[str, str] = field(default_factory=dict)
    """In what is copied; each is there once."""
    waits_for: str = ""
    """Who comes second waits for this lock; else it leaves, with success and nothing done."""
    slot: float = 0.0
    """A slot of a killed one counts as done: the next begins so many seconds later."""
    again: bool = True
    """Whether one more start works again, or finds everything done."""
    others: Callable[[locknut.Locks], Any] = nobody
    """Who else holds something meanwhile."""
    holds_after: Callable[[Hosts], object] = lambda _: True
    engines: tuple[str, ...] = ("file", "redis")
    quick: tuple[str, ...] = ("file",)
    """The engines on which it is tried in every run."""

    def command(self, hosts: Hosts, place: Place) -> list[str]:
        text = copied(place)
        for usual, changed in self.changes.items():
            assert text.count(usual) == 1, f"{place}: {usual}"
            text = text.replace(usual, changed)
        return self.lay(hosts, text)


def python(hosts: Hosts, text: str) -> list[str]:
    """What is copied is a whole program."""
    (hosts.folder / "copied.py").write_text(f"import os\n{text}")
    return [sys.executable, "copied.py"]


def command_line(hosts: Hosts, text: str) -> list[str]:
    """A line for a shell, perhaps in a crontab: the first that has the command."""
    line = next(each for each in text.splitlines() if "locknut " in each)
    return ["sh", "-c", f"exec locknut {line.partition('locknut ')[2]}"]


def script(hosts: Hosts, text: str) -> list[str]:
    return ["sh", "-eu", "-c", text]


def any_tool(hosts: Hosts, text: str) -> list[str]:
    hosts.program("alembic", "#!/bin/sh\nexec job\n")
    return command_line(hosts, text)


def any_program(hosts: Hosts, text: str) -> list[str]:
    hosts.program("celery", "#!/bin/sh\nexec job\n")
    return command_line(hosts, text)


def alembic(hosts: Hosts, text: str) -> list[str]:
    """A project as Alembic writes it, with the page's line in its env.py."""
    from tests.contrib.alembic.projects import OPEN, Project

    project = Project(hosts.folder, f"sqlite:///{hosts.folder}/data.db", body=RUN_JOB)
    (line,) = [each.partition("#")[0].strip() for each in text.splitlines() if "with migra" in each]
    env = project.folder / "scripts" / "env.py"
    assert OPEN in env.read_text()
    env.write_text(env.read_text().replace(OPEN, line))
    return [sys.executable, "-m", "alembic", "upgrade", "head"]


def django(hosts: Hosts, text: str) -> list[str]:
    """A site with the page's settings."""
    from tests.contrib.django.sites import Site

    Site(hosts.folder, hosts.url, body=RUN_JOB)
    own = (hosts.folder / "settings.py").read_text().splitlines()
    needed = [line for line in own if line.startswith(("DATABASES", "SECRET_KEY"))]
    settings = [text.replace("redis://cache.example", hosts.url), *needed]
    (hosts.folder / "settings.py").write_text("\n".join(settings))
    return [sys.executable, "-m", "django", "migrate", "--settings=settings", "--noinput"]


MODEL = """
import os
import django
from django.conf import settings

DATA = {"ENGINE": "django.db.backends.sqlite3", "NAME": "data.db"}
settings.configure(INSTALLED_APPS=["locknut.contrib.django"], DATABASES={"default": DATA})
django.setup()
from django.db import models

class Item(models.Model):
    amount = models.IntegerField()
    class Meta:
        app_label = "shop"
"""


def django_function(hosts: Hosts, text: str) -> list[str]:
    with sqlite3.connect(hosts.folder / "data.db") as connection:
        connection.execute("CREATE TABLE shop_item (id INTEGER PRIMARY KEY, amount INTEGER)")
        connection.execute("INSERT INTO shop_item VALUES (7, 100)")
    (hosts.folder / "copied.py").write_text(f"{MODEL}\n{text}\nsell(7)\n")
    return [sys.executable, "copied.py"]


def by_hand(hosts: Hosts, text: str) -> list[str]:
    """The table of the example is made once."""
    with psycopg.connect(hosts.url) as connection:
        connection.execute(TABLE)
        connection.execute(FIRST_ROW)
    return python(hosts, text.replace("postgresql://app@localhost/shop", hosts.url))


@contextmanager
def nine_others(locks: locknut.Locks) -> Iterator[None]:
    """Of ten permits one is left."""
    with ExitStack() as stack:
        for _ in range(9):
            stack.enter_context(locks.semaphore("api:stripe", 10))
        yield


def in_sqlite(file: str, asked: str) -> Callable[[Hosts], int]:
    def number(hosts: Hosts) -> int:
        with sqlite3.connect(hosts.folder / file) as connection:
            return int(connection.execute(asked).fetchone()[0])

    return number


def sold_twice(number: Callable[[Hosts], int]) -> Callable[[Hosts], bool]:
    """Four have begun, and what the two killed ones did is undone."""
    return lambda hosts: number(hosts) == 98


def amount_in_postgresql(hosts: Hosts) -> int:
    with psycopg.connect(hosts.url) as connection:
        row = connection.execute("SELECT amount FROM stock").fetchone()
        assert row is not None
        return int(row[0])


def before(work: str) -> dict[str, str]:
    return {work: f"{RUN_JOB}; {work}"}


def after(work: str) -> dict[str, str]:
    return {work: f"{work}; {RUN_JOB}"}


ROWS = in_sqlite("shop.db", "SELECT count(*) FROM stock")
AMOUNT = in_sqlite("data.db", "SELECT amount FROM shop_item")
VERSIONS = in_sqlite("data.db", "SELECT count(*) FROM alembic_version")
MIGRATIONS = in_sqlite("data.db", "SELECT count(*) FROM django_migrations WHERE app = 'shop'")
CREATE = 'session.execute(text("CREATE TABLE IF NOT EXISTS stock (amount INTEGER)"))'
INSERT = 'session.execute(text("INSERT INTO stock VALUES (1)"))'
UPDATE = 'connection.execute("UPDATE stock SET amount = %s WHERE id = 7", [amount - 1])'
TABLE = "CREATE TABLE stock (id INTEGER PRIMARY KEY, amount INTEGER)"
FIRST_ROW = "INSERT INTO stock VALUES (7, 100)"
BOTH = ("file", "redis")

HERE = {
    Place(MIGRATES, "for-any-tool"): Use(lay=any_tool, waits_for="migrate"),
    Place(MIGRATES, "alembic"): Use(
        lay=alembic,
        waits_for="migrate",
        again=False,
        holds_after=lambda hosts: VERSIONS(hosts) == 1,
        quick=(),
    ),
    Place(MIGRATES, "django"): Use(
        lay=django,
        changes={'"django.contrib.admin"': '"shop"'},
        waits_for="migrate",
        again=False,
        holds_after=lambda hosts: MIGRATIONS(hosts) == 2,
    ),
    Place(RECIPES, "something-once-when-a-service-starts"): Use(
        lay=python,
        changes=before('catalogue.write_text("seeded")'),
        waits_for="seed",
        again=False,
        quick=BOTH,
    ),
    Place("docs/election.md", "for-any-program"): Use(lay=any_program, waits_for="celery-beat"),
    Place(ONCE, "in-a-crontab"): Use(
        lay=command_line,
        changes={"/usr/local/bin/sync-orders": "job"},
        slot=15 * 60.0,
        again=False,
    ),
    Place(ONCE, "in-python"): Use(
        lay=python, changes=before('return "written"'), slot=24 * 3600.0, again=False
    ),
    Place(RECIPES, "a-cron-job-that-never-overlaps-itself"): Use(
        lay=command_line, changes={"/usr/local/bin/sync-orders": "job"}
    ),
    Place("docs/reference.md", "the-decorator"): Use(
        lay=python, changes=before('return f"recomputed')
    ),
    Place("docs/election.md", "in-python"): Use(
        lay=python,
        changes={"ttl=10": SHORT, **before("term.check()")},
        waits_for="scheduler",
        quick=BOTH,
    ),
    Place(RECIPES, "at-most-ten-calls-of-an-api-at-a-time"): Use(
        lay=python,
        changes={'"ada"': "os.environ['HOST']", **before('return f"refreshed')},
        waits_for="api:stripe",
        others=nine_others,
        quick=BOTH,
    ),
    Place("docs/sqlalchemy.md", "sqlalchemy"): Use(
        lay=python,
        changes={CREATE: f"{CREATE}; {INSERT}; {RUN_JOB}"},
        waits_for="stock:7",
        holds_after=lambda hosts: ROWS(hosts) == 2,
    ),
    Place("docs/django.md", "a-lock-and-a-transaction"): Use(
        lay=django_function,
        changes=after("item.save()"),
        waits_for="stock:7",
        holds_after=sold_twice(AMOUNT),
    ),
    Place("docs/concepts/fencing.md", "where-the-lock-lives-in-the-same-database"): Use(
        lay=by_hand,
        changes={
            'lock("stock:7")': f'lock("stock:7", {SHORT})',
            f'connection.execute("{TABLE}")': "",
            f'connection.execute("{FIRST_ROW}")': "",
            **after(UPDATE),
        },
        waits_for="stock:7",
        holds_after=sold_twice(amount_in_postgresql),
        engines=("postgresql",),
        quick=(),
    ),
    Place(RECIPES, "airflow-dagster-prefect"): Use(
        lay=python, changes=before('return f"loaded'), waits_for="warehouse:orders"
    ),
    Place("docs/cli.md", "scripts-without-a-child-process"): Use(
        lay=script,
        changes={"--ttl 10m": "--ttl 10s", 'echo "held, by us"': "job"},
        waits_for="demo-deploy",
        quick=(),
    ),
}
"""By the place that README's table leads to."""

_SERVED = "test_equal_posts_run_once_and_a_killed_server_leaves_no_lock"
_QUEUES = "tests/contrib/task_queues/test_recipes.py::test_two_killed_workers_leave_no_lock"
SHOWN_BY = {
    Place(TASKS, "celery-beat-with-stand-ins"): (
        "tests/contrib/celery/test_beat.py::test_real_beats_take_over_from_each_other"
    ),
    Place(TASKS, "celery-a-task-one-at-a-time"): (
        "tests/contrib/task_queues/test_page.py::test_two_killed_workers_of_celery_leave_no_lock"
    ),
    Place(TASKS, "apscheduler-a-job-once"): (
        "tests/contrib/task_queues/test_page.py::test_jobs_of_apscheduler_go_on_when_two_are_killed"
    ),
    Place(TASKS, "rq"): _QUEUES,
    Place(TASKS, "dramatiq"): _QUEUES,
    Place(TASKS, "arq"): _QUEUES,
    Place(WEB, "fastapi"): f"tests/contrib/fastapi/test_fastapi_served.py::{_SERVED}",
    Place(WEB, "starlette"): f"tests/contrib/starlette/test_starlette_served.py::{_SERVED}",
    Place(WEB, "flask"): f"tests/contrib/flask/test_flask_served.py::{_SERVED}",
}
"""Uses that need servers and workers of a framework, and the test that does the same with them."""
