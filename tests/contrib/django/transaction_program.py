"""Locks that end with a transaction, and the settings, in a site; a program of its own."""

from __future__ import annotations

import json
import os
import threading
import unittest
from contextlib import suppress
from pathlib import Path
from typing import Any

import django
import pymysql
import pytest
from django.conf import settings
from django.core import checks
from django.db import connection, transaction
from django.test import TestCase, override_settings

import locknut
from tests.contrib.django.scenarios import run

pymysql.install_as_MySQLdb()
settings.configure(
    INSTALLED_APPS=["locknut.contrib.django"],
    DATABASES={"default": json.loads(os.environ["DATABASE"])},
    LOCKNUT={"URL": "memory:", "LABEL": "shop"},
)
django.setup()

from locknut.contrib.django import atomic_lock, lock_transaction, locks  # noqa: E402
from locknut.guards.sql import SqlGuard, create_table  # noqa: E402


class Wrong(Exception):
    """What a body raises."""


def lay_out() -> None:
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE stock (amount INTEGER)")
        cursor.execute("INSERT INTO stock VALUES (0)")
    create_table(connection)


def add() -> None:
    with connection.cursor() as cursor:
        cursor.execute("UPDATE stock SET amount = amount + 1")


def amount() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT amount FROM stock")
        return int(cursor.fetchone()[0])


def held(name: str = "stock") -> bool:
    return locks().info(name).locked


def lost(lease: locknut.Lease) -> None:
    assert locks().force_release(lease.name)
    assert lease.lost.wait(60)


def scenario_it_commits_and_then_unlocks() -> None:
    before = amount()
    seen: list[Any] = []

    def next_one() -> None:
        with locks().lock("stock"):
            seen.append(amount())
        connection.close()

    with atomic_lock("stock", timeout=5) as lease:
        assert lease.held
        add()
        transaction.on_commit(lambda: seen.append(held()))
        waiting = threading.Thread(target=next_one)
        waiting.start()
    waiting.join()
    assert seen == [True, before + 1]
    assert not held()


def scenario_a_body_that_raises_is_rolled_back_and_unlocked() -> None:
    before = amount()
    with suppress(Wrong), atomic_lock("stock"):
        add()
        raise Wrong
    assert (amount(), held()) == (before, False)


def scenario_a_lost_lock_is_not_committed() -> None:
    before = amount()
    with pytest.raises(locknut.LeaseLost), atomic_lock("stock") as lease:  # noqa: PT012
        add()
        lost(lease)
    assert amount() == before


def scenario_inside_of_another_transaction_it_is_refused() -> None:
    with pytest.raises(RuntimeError, match="durable"), transaction.atomic(), atomic_lock("stock"):
        raise AssertionError
    assert not held()


def scenario_the_guard_refuses_an_older_fence() -> None:
    with locks().lock("stock") as asleep:
        pass
    with atomic_lock("stock", guard=True):
        add()
    with pytest.raises(locknut.StaleFence), transaction.atomic():
        SqlGuard(connection, "stock").enter(asleep)


def scenario_it_lasts_until_the_commit() -> None:
    with transaction.atomic():
        lease = lock_transaction("stock", timeout=5, guard=True)
        with transaction.atomic():
            add()
        assert lease.held
        assert held()
    assert lease.state == "released"


def scenario_it_lasts_until_the_rollback() -> None:
    leases = []
    with suppress(Wrong), transaction.atomic():
        leases.append(lock_transaction("stock"))
        add()
        raise Wrong
    assert [each.state for each in leases] == ["released"]
    assert not held()


def scenario_set_rollback_is_a_rollback() -> None:
    with transaction.atomic():
        lock_transaction("stock")
        transaction.set_rollback(True)
    assert not held()


def scenario_a_savepoint_that_is_older_than_the_lock_ends_it() -> None:
    with transaction.atomic():
        outer = lock_transaction("outer")
        with suppress(Wrong), transaction.atomic():
            lock_transaction("inner")
            lock_transaction("outer")
            raise Wrong
        assert not held("inner")
        assert outer.held
    assert not held("outer")


class OfAUser(TestCase):  # type: ignore[misc]  # Django has no types
    """Its transaction is never committed."""

    def test_it(self) -> None:
        lock_transaction("stock")
        add()
        assert held()


def scenario_in_a_test_case_it_ends_with_the_test() -> None:
    outcome = unittest.TestResult()
    unittest.TestSuite([OfAUser("test_it")]).run(outcome)
    assert outcome.testsRun == 1
    assert outcome.wasSuccessful(), outcome.errors
    assert not held()


def scenario_without_a_transaction_it_is_refused() -> None:
    with pytest.raises(locknut.ConfigurationError, match=r"transaction\.atomic"):
        lock_transaction("stock")
    assert not held()


def scenario_a_busy_lock_is_a_timeout() -> None:
    said: list[str] = []

    def other() -> None:
        with pytest.raises(locknut.AcquireTimeout) as busy, transaction.atomic():
            lock_transaction("stock", timeout=0)
        said.append(str(busy.value))
        connection.close()

    with locks().lock("stock"):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert "held by shop" in said[0]


def errors(*, deploy: bool = False) -> list[str]:
    found = checks.run_checks(tags=["locknut"], include_deployment_checks=deploy)
    return [str(each.id) for each in found]


def scenario_good_settings_pass() -> None:
    assert errors() == []
    with override_settings(LOCKNUT={"URL": "redis://cache.example"}):
        assert errors(deploy=True) == []


def scenario_bad_settings_are_errors() -> None:
    for wrong in (
        {"URL": "rediss+nonsense://x"},
        {"URL": "memory:", "DEADLOCKS": "perhaps"},
        {"URL": "memory:", "NAMESPACES": "x"},
        "redis://x",
    ):
        with override_settings(LOCKNUT=wrong):
            assert errors() == ["locknut.E001"], wrong
    with override_settings(LOCKNUT={"URL": "memory:"}, LOCKNUT_URL="file:"):
        assert errors() == ["locknut.E001"]


def scenario_a_missing_driver_is_an_error() -> None:
    import sys

    kept = sys.modules.get("pymysql")
    sys.modules["pymysql"] = None  # type: ignore[assignment]
    try:
        with override_settings(LOCKNUT=None, LOCKNUT_URL="mysql://localhost/locks"):
            (found,) = checks.run_checks(tags=["locknut"])
            assert found.id == "locknut.E002"
            assert "pip install" in found.msg
    finally:
        del sys.modules["pymysql"]
        if kept is not None:
            sys.modules["pymysql"] = kept


def scenario_an_engine_of_one_host_is_a_warning_in_production() -> None:
    for url, found in (
        ("memory:", "locknut.W003"),
        (f"file://{Path.cwd()}/locks", "locknut.W002"),
        (f"sqlite://{Path.cwd()}/locks.db", "locknut.W002"),
    ):
        with override_settings(LOCKNUT=None, LOCKNUT_URL=url):
            assert errors() == []
            assert errors(deploy=True) == [found], url


def scenario_a_process_has_one_locks() -> None:
    before = locks()
    assert locks() is before
    with override_settings(LOCKNUT={"URL": "memory:other"}):
        assert locks().place != before.place


def scenario_without_settings_they_are_the_default_ones() -> None:
    with override_settings(LOCKNUT=None):
        assert locks() is locknut.default()


if __name__ == "__main__":
    lay_out()
    run(globals())
