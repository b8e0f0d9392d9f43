"""A driver that is missing is named with a command that works, before a release and after it."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib

import pytest

import locknut
from tests.contracts.documentation import pages
from tests.contracts.sources import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NO_ENGINE = {"all", "testing", "prometheus", "otel", "dash", "tui"}
NO_ENGINE |= {"alembic", "apscheduler", "celery", "django", "fastapi", "flask", "sqlalchemy"}
NO_ENGINE |= {"starlette"}
"""Extras that are for something else than an engine; each has tests of its own."""
WITHOUT = """
import sys
sys.modules[{driver!r}] = None
import locknut
try:
    locknut.connect({url!r})
except locknut.ConfigurationError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("extra", "driver", "url"),
    [
        ("redis", "hiredis", "redis://localhost"),
        ("redis", "hiredis", "redlock://a,b,c"),
        ("zookeeper", "kazoo", "zookeeper://localhost"),
        ("mysql", "pymysql", "mysql://localhost/locks"),
        ("postgresql", "psycopg", "postgresql://localhost/db"),
    ],
)
def test_the_command_installs_what_the_extra_has(extra: str, driver: str, url: str) -> None:
    program = WITHOUT.format(driver=driver, url=url)
    said = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    packages = " ".join(f'"{each}"' for each in PROJECT["optional-dependencies"][extra])
    assert f"a driver that is not installed ({driver}" in said
    assert f"get it with: pip install {packages}" in said


@pytest.mark.parametrize("url", ["redis://localhost", "redis+cluster://a,b", "redlock://a,b,c"])
def test_redis_needs_no_client_library(url: str) -> None:
    """redis-py is not asked for: connections, and what a URL says, are our own affair."""
    program = WITHOUT.format(driver="redis", url=url)
    said = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=True
    )
    assert (said.stdout, said.stderr) == ("", "")


ALONE = """
import asyncio, importlib.util, locknut.aio
assert not any(map(importlib.util.find_spec, ("hiredis", "redis", "pytest"))), "others are there"
async def on_a_loop():
    async with locknut.aio.connect({url!r}) as locks:
        await locks.lock("x").acquire(timeout=1)
for acquire in (
    lambda: locknut.connect({url!r}).lock("x").acquire(timeout=1),
    lambda: asyncio.run(on_a_loop()),
):
    try:
        acquire()
    except locknut.BackendUnavailable:
        print("reached")
"""
"""In an interpreter without any installed package, up to the connection, which nobody takes."""


@pytest.mark.parametrize(
    "url",
    [
        "memcached://127.0.0.1:1",
        "memcached+unix:///nowhere",
        "etcd://127.0.0.1:1",
        "etcd+tls://127.0.0.1:1",
    ],
)
def test_some_engines_need_the_standard_library_alone(url: str) -> None:
    command = [sys.executable, "-S", "-W", "error", "-c", ALONE.format(url=url)]
    environment = {"PYTHONPATH": str(ROOT / "src")}
    said = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (said.stdout.split(), said.stderr) == (["reached"] * 2, "")


@pytest.mark.parametrize("extra", sorted(set(PROJECT["optional-dependencies"]) - NO_ENGINE))
def test_every_extra_is_for_an_engine_that_exists(extra: str) -> None:
    """A driver without an engine would be a promise that nobody keeps."""
    database = "/locks" if extra in {"mysql", "mariadb"} else ""
    with locknut.connect(f"{extra}://localhost{database}") as locks:
        assert extra in {locks.backend, "valkey"}


def test_every_extra_that_a_page_names_exists() -> None:
    named = {
        extra
        for page in pages()
        for group in re.findall(r"pip install[^\n`]*\[([a-z,]+)\]", page.read_text())
        for extra in group.split(",")
    }
    assert {"redis", "zookeeper"} <= named <= set(PROJECT["optional-dependencies"])


def test_the_first_lines_of_the_readme_install_from_a_clone() -> None:
    """The name alone is of no use to anybody before there is a release."""
    first = (ROOT / "README.md").read_text().split("\n## ", 1)[0]
    assert first.index("pip install .  ") < first.index("pip install locknut ")
