"""`migrate --with-lock`: one process migrates, the others wait with a bound.

It is in front of the `migrate` that Django would run without us, Django's own or another app's, and
calls that one. If the lock is lost, no further migration is begun.
"""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import Any

from django.apps import apps
from django.core.management import CommandError, find_commands
from django.core.management.commands.migrate import Command as DjangoMigrate
from django.db import connections
from django.db.migrations.executor import MigrationExecutor

from locknut import AcquireTimeout, Lease, LocknutError
from locknut.contrib.django.configured_locks import locks, option
from locknut.contrib.migration_hold import NAME, TIMEOUT, migration_hold


def next_in_line() -> Any:
    """Return the command that `migrate` would be without this app."""
    configs = list(apps.get_app_configs())
    ours = next(at for at, each in enumerate(configs) if each.label == "locknut")
    for config in configs[ours + 1 :]:
        if "migrate" in find_commands(str(Path(config.path, "management"))):
            return import_module(f"{config.name}.management.commands.migrate").Command
    return DjangoMigrate


class Command(next_in_line()):  # type: ignore[misc]  # Django has no types
    """The other `migrate`, under a lock if it is asked for."""

    _lease: Lease | None = None

    def add_arguments(self, parser: Any) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--with-lock",
            action=argparse.BooleanOptionalAction,
            default=bool(option("MIGRATE_WITH_LOCK", default=False)),
            help="let one process migrate at a time: the others wait",
        )
        parser.add_argument(
            "--lock-timeout",
            default=option("MIGRATE_TIMEOUT", TIMEOUT),
            help="how long to wait for the lock, as 90 or 10m; then it fails",
        )

    def handle(self, *args: Any, **options: Any) -> Any:
        wanted, timeout = options.pop("with_lock", False), options.pop("lock_timeout", TIMEOUT)
        if not wanted or options.get("plan") or options.get("check_unapplied"):
            return super().handle(*args, **options)
        try:
            return self._under_lock(timeout, args, options)
        except LocknutError as error:
            raise CommandError(str(error)) from error

    def _under_lock(self, timeout: Any, args: Any, options: dict[str, Any]) -> Any:
        done = _nothing_left(options)
        with ExitStack() as stack:
            try:
                hold = migration_hold(locks(), NAME, 0 if done else timeout)
                self._lease = stack.enter_context(hold)
            except AcquireTimeout:
                if not done:
                    raise
                self.stdout.write("No migrations to apply, and another process has the lock.")
                return None
            return super().handle(*args, **options)

    def migration_progress_callback(
        self, action: str, migration: Any = None, fake: bool = False
    ) -> None:
        """Raise before a migration if the lock is not ours any more."""
        if self._lease is not None and action in {"apply_start", "unapply_start"}:
            self._lease.check()
        super().migration_progress_callback(action, migration, fake)


def _nothing_left(options: dict[str, Any]) -> bool:
    """Whether the database has all migrations. Then nobody is waited for.

    What comes after the migrations (the signals, which make permissions) is still done if the lock
    is free; if it is not, whoever has it does the same.
    """
    if any(options.get(each) for each in ("app_label", "fake", "prune", "run_syncdb")):
        return False
    connection = connections[options["database"]]
    executor = MigrationExecutor(connection)
    pending = executor.migration_plan(executor.loader.graph.leaf_nodes())
    if not connection.in_atomic_block:
        connection.close()  # whoever waits needs none
    return not pending
