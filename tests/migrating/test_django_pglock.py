"""Advisory locks of django-pglock beside ours in the same PostgreSQL: they do not know each other,
and a release that takes both excludes its neighbours.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers.databases import Database

pytestmark = pytest.mark.postgresql

PROGRAM = """
import contextlib, sys, threading
from urllib.parse import urlsplit, unquote
import django
from django.conf import settings
import locknut

url = sys.argv[1]
place = urlsplit(url)
settings.configure(
    DATABASES={"default": {
        "ENGINE": "django.db.backends.postgresql", "NAME": place.path[1:],
        "USER": unquote(place.username), "PASSWORD": unquote(place.password or ""),
        "HOST": place.hostname, "PORT": place.port,
    }},
    INSTALLED_APPS=["pgactivity", "pglock"],
)
django.setup()
from django.db import connection
import pglock

lease_mode = locknut.connect(url)
session_mode = locknut.connect(url + ("&" if place.query else "?") + "mode=session")


def old():
    stack = contextlib.ExitStack()
    if not stack.enter_context(pglock.advisory("report", timeout=0)):
        raise TimeoutError("pglock says False")
    return stack


def new(locks=lease_mode):
    stack = contextlib.ExitStack()
    stack.enter_context(locks.lock("report", timeout=0))
    return stack


def both():
    with contextlib.ExitStack() as stack:
        stack.enter_context(old())
        stack.enter_context(new())
        return stack.pop_all()


def excluded(release):
    # In another thread, which has a session of its own with the database.
    told = []

    def enter():
        try:
            with release():
                told.append(False)
        except TimeoutError:
            told.append(True)
        finally:
            connection.close()

    other = threading.Thread(target=enter)
    other.start()
    other.join()
    return told == [True]


for one, other in [(old, old), (old, both), (both, both), (both, new), (new, new)]:
    with one():
        assert excluded(other), (one, other)
    with other():
        assert excluded(one), (other, one)
for locks in (lease_mode, session_mode):
    with old():
        assert not excluded(lambda: new(locks)), locks
    with new(locks):
        assert not excluded(old), locks

bodies = []


def without_looking():
    with pglock.advisory("report", timeout=0) as acquired:
        bodies.append(acquired)


with old():
    other = threading.Thread(target=lambda: (without_looking(), connection.close()))
    other.start()
    other.join()
assert bodies == [False], "their body runs without the lock"

ran = []


@pglock.advisory("skipped", timeout=0, side_effect=pglock.Skip)
def theirs():
    ran.append("theirs")


@lease_mode.locked("skipped", timeout=0, on_busy="skip")
def ours():
    ran.append("ours")


def in_a_thread(work):
    other = threading.Thread(target=lambda: (work(), connection.close()))
    other.start()
    other.join()


with pglock.advisory("skipped"), lease_mode.lock("skipped"):
    in_a_thread(theirs)
    in_a_thread(ours)
    assert ran == []
in_a_thread(theirs)
in_a_thread(ours)
assert ran == ["theirs", "ours"]

lease_mode.close()
session_mode.close()
print("all as the page says")
"""


def test_beside_the_real_one(postgresql_database: Database, tmp_path: Path) -> None:
    program = tmp_path / "shop.py"
    program.write_text(PROGRAM)
    paths = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(program), postgresql_database.url],
        env={**os.environ, "PYTHONPATH": paths},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.stdout == "all as the page says\n", done.stderr
