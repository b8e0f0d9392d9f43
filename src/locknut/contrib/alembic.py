"""Alembic: one process migrates, the others wait with a bound, and nobody waits at head.

>>> # env.py, in run_migrations_online(), after context.configure(...)
>>> # with migration_lock(), context.begin_transaction():
>>> #     context.run_migrations()

The lock has connections of its own, so a revision may end transactions, as `CREATE INDEX
CONCURRENTLY` does. If it is lost, no further revision is begun. It needs the extra `alembic`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from alembic import context
from alembic.runtime.migration import MigrationContext

import locknut
from locknut import ConfigurationError, Lease, LocknutError, Locks
from locknut.contrib.migration_hold import NAME, TIMEOUT, migration_hold

__all__ = ["migration_lock"]

Steps = Callable[..., Iterable[Any]]


@contextmanager
def migration_lock(
    name: str = NAME,
    *,
    timeout: float | str | None = TIMEOUT,
    ttl: float | str | None = None,
    locks: Locks | None = None,
) -> Iterator[Lease | None]:
    """Hold the lock while this process migrates: in `env.py`, or around `command.upgrade`.

    In `env.py` it stands after `context.configure(...)`. There is no wait, and no lease, if the
    database is at head already, or if nothing is migrated: `--sql`, `current`, `check`, `revision`.
    """
    migrations = _configured()
    if migrations is not None and _only_looks(migrations):
        yield None
        return
    if migrations is not None and _at_head(migrations):
        with _instead(migrations, _nothing_left):
            yield None
        return
    with migration_hold(locks or locknut.default(), name, timeout, ttl=ttl) as lease:
        if migrations is None or lease is None:
            yield lease
            return
        with _instead(migrations, lambda steps: _while_held(steps, lease)):
            yield lease


def _configured() -> MigrationContext | None:
    """What `env.py` has configured; None outside of it."""
    try:
        context.is_offline_mode()
    except (NameError, AttributeError):  # what Alembic's proxy raises before and after an env.py
        return None
    try:
        return context.get_context()
    except Exception as missing:
        raise ConfigurationError(
            "migration_lock() comes after context.configure(...) in env.py: it looks at the "
            "database, and whether there is anything to do"
        ) from missing


def _only_looks(migrations: MigrationContext) -> bool:
    return bool(
        migrations.as_sql
        or migrations.opts.get("dont_mutate")  # current
        or migrations.opts.get("revision_context")  # revision --autogenerate, check
    )


def _at_head(migrations: MigrationContext) -> bool:
    """Whether this is `upgrade head`, and all is done. Nobody is waited for to find out."""
    connection, scripts = migrations.connection, migrations.script
    asked = migrations.opts.get("destination_rev")
    if connection is None or scripts is None or asked not in ("head", "heads"):
        return False
    if migrations.opts.get("purge") or connection.in_transaction():
        return False
    # A transaction that stays open would show what was there before the wait, and `CREATE INDEX
    # CONCURRENTLY` in the process that migrates would wait for it, while we wait for that process.
    try:
        present = migrations.get_current_heads()
    finally:
        connection.rollback()
    if not present:
        return False
    heads = tuple(scripts.get_heads())
    return scripts.get_all_current(present) == scripts.get_all_current(heads)


@contextmanager
def _instead(migrations: MigrationContext, change: Callable[[Steps], Steps]) -> Iterator[None]:
    """Run other steps than Alembic would. It asks for one at a time, before each revision."""
    steps = migrations._migrations_fn
    if steps is None:
        yield
        return
    migrations._migrations_fn = change(steps)
    try:
        yield
    finally:
        migrations._migrations_fn = steps


def _while_held(steps: Steps, lease: Lease) -> Steps:
    """Between two revisions, and after the last: where there is one transaction, before it ends."""

    def checked(*given: Any) -> Iterator[Any]:
        for step in steps(*given):
            lease.check()
            yield step
        lease.check()

    return checked


def _nothing_left(steps: Steps) -> Steps:
    def none(*given: Any) -> Iterator[Any]:
        for step in steps(*given):
            raise LocknutError(
                f"the database was at head a moment ago, and now it lacks {step}: somebody else "
                "changes it right now; start again, then the lock is waited for"
            )
        return iter(())

    return none
