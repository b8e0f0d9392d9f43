"""What an error of the server means: undone and worth another try, in doubt, or refused."""

from __future__ import annotations

from typing import Final

from locknut.drivers.postgresql.exchange import Refused
from locknut.drivers.postgresql.settings import NAME, Settings
from locknut.errors import BackendError, BackendUnavailable, ConfigurationError, LocknutError

UNDONE: Final = frozenset({"40001", "40P01", "55P03"})
"""Serialization, deadlock, lock not available: the statement was undone, and may be sent again."""
CANCELLED: Final = "57014"
NO_TABLE: Final = frozenset({"42P01", "3F000"})
TABLE_JUST_MADE: Final = frozenset({"42P07", "23505", "42710"})
"""Two that create it at once: PostgreSQL tells one of them so."""
NOT_PREPARED: Final = frozenset({"26000", "42P05", "0A000"})
"""The server knows nothing of our prepared statement, or something else by its name, or its plan
does not fit the table any more: another client has this session too, or somebody altered things."""
PLAN_CHANGED: Final = "0A000"
TRY_AGAIN: Final = UNDONE | NOT_PREPARED
CHECK_FAILED: Final = "22012"
"""A division by zero: how a statement of ours undoes its transaction."""
_IN_DOUBT: Final = ("", "08", "53", "57", "58")
"""Connections, resources, an operator, the system: it is the server's state, and passes."""
_FOREIGN: Final = frozenset(
    {"42703", "42804", "42809", "42883", "42P10", "22P02", "42846", "23502"}
)
READ_ONLY: Final = "25006"
NO_RIGHT: Final = "42501"


def ends_session(error: Refused) -> bool:
    """Whether the server says it with its last breath, or is not the one to ask any more."""
    return error.code[:2] in {"08", "57"} or error.code in {"", READ_ONLY}


def failure(error: Refused, settings: Settings, table: str) -> LocknutError:
    """What to raise for an error that another try does not help against."""
    code = error.code
    said = f"{error} ({code})"
    if code in UNDONE:
        message = f"another transaction has locked the row of this lock: {said}"
        return BackendUnavailable(message, backend=NAME)
    if code == READ_ONLY:
        return read_only(settings)
    if code == NO_RIGHT:
        message = (
            f"{said}; the user needs: GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO ... "
            "(`locknut schema -u URL` shows the table)"
        )
        return ConfigurationError(message, backend=NAME)
    if code in _FOREIGN:
        message = f"the table {table} is not one of locks: {said}; choose another name with table="
        return ConfigurationError(message, backend=NAME)
    if code[:2] in _IN_DOUBT:
        return BackendUnavailable(f"{settings.place}: {said}", backend=NAME)
    return BackendError(f"{settings.place}: {said}", backend=NAME)


def read_only(settings: Settings) -> ConfigurationError:
    message = (
        f"{settings.place} takes no writes: it is a standby, or default_transaction_read_only is "
        "on; name the primary, or all servers (postgresql://h1,h2/db), of which the one is chosen "
        "that takes writes"
    )
    return ConfigurationError(message, backend=NAME)


_REFUSED_AT_THE_DOOR: Final = (
    "authentication failed",
    "no password supplied",
    "no pg_hba.conf entry",
    "does not exist",
    "permission denied for database",
    "is not permitted to log in",
    "certificate verify failed",
    "does not match host name",
    "does not support SSL",
)
"""libpq has no code for these, only words; in another language they count as unreachable."""


def unreachable(settings: Settings, reason: str) -> BackendError:
    """There is no session with the server."""
    text = " ".join(reason.split()) or "no answer"
    message = f"{settings.place} cannot be reached: {text}"
    if any(words in text for words in _REFUSED_AT_THE_DOOR):
        return BackendError(message, backend=NAME)
    return BackendUnavailable(message, backend=NAME)
