"""How an attempt can end other than with a grant: answers inside this engine, not errors."""

from __future__ import annotations

import os
import stat

from locknut.errors import BackendError, BackendUnavailable


class Outcome(Exception):
    """Raised where the attempt has to be backed out of."""


class Refused(Outcome):
    """Somebody else is in, or was here before."""


class Reserved(Refused):
    """A detached hold is in: nobody to wait for, but a time."""

    def __init__(self, left: float) -> None:
        super().__init__()
        self.left = left


class Orphaned(Outcome):
    """The file was buried or unlinked: what is locked in it counts for nothing. Open again."""


class Crowded(Outcome):
    """Somebody was stopped in the middle of a few microseconds' work. Ask again soon."""


def failed(error: Exception, key: str | None) -> BackendError:
    """What the caller is told."""
    if isinstance(error, Crowded):
        message = "another process stopped in the middle of changing the lock file: ask again"
        return BackendUnavailable(message, key=key, backend="file")
    message = f"the lock file could not be used: {error}{_advice(error)}"
    return BackendError(message, key=key, backend="file")


def _advice(error: Exception) -> str:
    """In a directory that a group shares, new files must belong to that group."""
    if not isinstance(error, PermissionError) or not isinstance(error.filename, str):
        return ""
    folder = os.path.dirname(error.filename)
    try:
        mode = os.stat(folder).st_mode
    except OSError:
        return ""
    if mode & stat.S_IWGRP and not mode & stat.S_ISGID:
        return f"; to share {folder} with its group, run: chmod g+s {folder}"
    return ""
