"""What an error of the server means for a command: undone, refused, or nobody knows."""

from __future__ import annotations

from typing import Final

import pymysql

from locknut.drivers.mysql.settings import Settings
from locknut.errors import BackendError, BackendUnavailable, ConfigurationError, LocknutError

NO_TABLE: Final = 1146
INTERRUPTED: Final = 1317
"""By KILL QUERY; a statement that says so was undone."""
ROW_FORMAT_ONLY: Final = 1665
"""The binary log is kept by statements, and then READ COMMITTED cannot write."""
UNDONE: Final = frozenset({1020, 1205, 1213})
"""A lock wait or a deadlock: the statement, or the whole transaction, was undone."""
NOT_KEPT: Final = frozenset({1243, 1295, 1461, 1615})
"""The server keeps no such statement, or not so many: it was not done."""
_READ_ONLY: Final = frozenset({1290, 1792, 1836})
_DENIED: Final = frozenset({1044, 1045, 1049, 1142, 1143, 1227, 1370, 1410, 1698, 3118, 3159})
_FOREIGN: Final = frozenset({1054, 1136, 1364, 1406, 1265, 1292, 1366})
"""Columns that are missing, too many or of another kind."""
_FULL: Final = frozenset({1040, 1203, 1226})
_TOO_LARGE: Final = frozenset({1153})
_LOST: Final = frozenset(
    {0, 1042, 1043, 1047, 1053, 1077, 1079, 1152, 1158, 1159, 1160, 1161, 1180, 1184, 1317}
    | {1927, 1969, 3024, 3169, 4031}
)
"""Going down, not ready, cut off or killed; codes from 2000 on are the driver's own."""


def code_of(error: BaseException) -> int:
    """The number; 0 where there is none."""
    number = error.args[0] if isinstance(error, pymysql.MySQLError) and error.args else 0
    return number if isinstance(number, int) else 0


def is_answer(error: BaseException) -> bool:
    """Whether the server said it, and goes on listening on that connection."""
    code = code_of(error)
    fatal = code in _LOST or code in _READ_ONLY or code in _TOO_LARGE
    return 1000 <= code < 2000 and not fatal


def is_full(error: BaseException) -> bool:
    """Whether the server has no connection left."""
    return code_of(error) in _FULL


def translated(error: pymysql.MySQLError, settings: Settings, table: str = "") -> LocknutError:
    """The error to raise, with what to do about it."""
    code = code_of(error)
    text = str(error.args[1]) if len(error.args) > 1 else str(error)
    kind, message = _meaning(code, text)
    said = message.format(where=settings.address, table=table, text=text, code=code)
    return kind(said, backend=settings.scheme)


def _meaning(code: int, text: str) -> tuple[type[LocknutError], str]:
    if code >= 2000:
        return _MEANINGS[_LOST]
    if code in _DENIED and "CREATE command denied" in text:
        code = NO_TABLE
    for codes, meaning in _MEANINGS.items():
        if code in codes:
            return meaning
    return BackendError, "{where} answered: {text} ({code})"


_MEANINGS: Final[dict[frozenset[int], tuple[type[LocknutError], str]]] = {
    _READ_ONLY: (ConfigurationError, "{where} is read-only ({text}); locks need the primary"),
    frozenset({NO_TABLE}): (
        ConfigurationError,
        (
            "there is no table {table} at {where}, and it could not be created ({text}); let an "
            "administrator create it: `locknut schema -u URL` shows how"
        ),
    ),
    frozenset({1142, 1143}): (
        ConfigurationError,
        (
            "{where} refuses: {text}; the user needs SELECT, INSERT, UPDATE and DELETE on {table} "
            "(`locknut schema -u URL` shows the table)"
        ),
    ),
    _DENIED: (ConfigurationError, "{where} refuses: {text}"),
    _FOREIGN: (
        ConfigurationError,
        (
            "the table {table} at {where} is not one of ours ({text}); choose another name with "
            "?table="
        ),
    ),
    _FULL: (
        BackendUnavailable,
        "{where} has no connection left ({text}); see max_connections and ?connections=",
    ),
    _TOO_LARGE: (
        BackendError,
        "a statement was too large for {where}: raise its max_allowed_packet",
    ),
    UNDONE: (
        BackendUnavailable,
        "another transaction keeps our rows locked at {where} ({text})",
    ),
    _LOST: (BackendUnavailable, "no answer from {where}: {text}"),
}
