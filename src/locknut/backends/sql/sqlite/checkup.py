"""What is looked at to see whether locks are safe in a SQLite file: the directory it is in, and the
log beside it.

A network file system, and one that cannot keep a write-ahead log, are refused when the file is
opened: then `usable` says so.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Final

from locknut.core.findings import Check, ok, warn
from locknut.core.values import Finding
from locknut.runtimes import directory_health

_LARGE: Final = 64 * 1024 * 1024
"""Bytes. SQLite begins anew at 4 MB, unless somebody reads all the time."""


def checks(path: str) -> list[Check]:
    """`path` is the database file."""
    folder = os.path.dirname(path)
    return [
        directory_health.check("sqlite-system", folder, directory_health.file_system),
        directory_health.check("sqlite-permissions", folder, directory_health.permissions),
        directory_health.check("sqlite-cleaner", folder, directory_health.cleaner),
        directory_health.check("sqlite-space", folder, directory_health.space),
        directory_health.check("sqlite-log", path, _log),
    ]


def _log(code: str, path: str) -> Finding:
    log = Path(f"{path}-wal")
    size = log.stat().st_size if log.exists() else 0
    if size > _LARGE:
        found = f"The log beside the file is {size // 1024 // 1024} MiB large, and slows it down."
        return warn(code, found, "End what reads from the file all the time, a backup perhaps.")
    return ok(code, f"The log beside the file is small (SQLite {sqlite3.sqlite_version}).")
