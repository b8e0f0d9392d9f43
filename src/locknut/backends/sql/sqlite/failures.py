"""What an error of SQLite means: to be tried again, refused, or a file that cannot be used."""

from __future__ import annotations

import sqlite3

from locknut.errors import BackendError, BackendUnavailable, ConfigurationError, LocknutError

BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_UNUSABLE = frozenset({
    sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_AUTH,
})  # fmt: skip
_REFUSED = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_CONSTRAINT})
"""The statement was undone, and the connection is as good as before."""


def primary_code(error: sqlite3.Error) -> int:
    """Of the extended codes the lowest byte says what kind it is; 0 if SQLite did not speak."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def undone(error: sqlite3.Error) -> bool:
    """Whether nothing was done for sure, and the connection can go on."""
    return primary_code(error) in BUSY | _REFUSED or table_is_missing(error)


def table_is_missing(error: sqlite3.Error) -> bool:
    return primary_code(error) == sqlite3.SQLITE_ERROR and str(error).startswith("no such table")


def translated(error: sqlite3.Error, path: str) -> LocknutError:
    """The error to raise from this one."""
    code = primary_code(error)
    if code in BUSY:
        message = f"{path} was locked by another writer for too long ({error})"
        return BackendUnavailable(message, backend="sqlite")
    if code in _UNUSABLE:
        return ConfigurationError(f"cannot use {path} for locks: {error}", backend="sqlite")
    if code == sqlite3.SQLITE_FULL:
        return BackendError(f"no room to write to {path}: {error}", backend="sqlite")
    if code == sqlite3.SQLITE_IOERR:
        return BackendUnavailable(f"no answer from {path}: {error}", backend="sqlite")
    return BackendError(f"{path}: {error}", backend="sqlite")
