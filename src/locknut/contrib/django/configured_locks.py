"""The Locks that the settings describe: `LOCKNUT_URL`, or a dict `LOCKNUT`; one for each process.

    LOCKNUT = {"URL": "redis://cache.example", "NAMESPACE": "shop", "MIGRATE_WITH_LOCK": True}

Without either they are those of `locknut.default()`: at $LOCKNUT_URL, or files of this user.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.core.signals import setting_changed

import locknut
from locknut import ConfigurationError, Locks

CONNECT = ("URL", "NAMESPACE", "LABEL", "REQUIRE", "ID", "DEADLOCKS", "HISTORY")
"""Options of `locknut.connect`."""
OWN = ("MIGRATE_WITH_LOCK", "MIGRATE_TIMEOUT", "DASHBOARD")
"""Options of this app."""

_made: list[Locks] = []
_mutex = threading.Lock()


def locks() -> Locks:
    """Return the Locks of this site."""
    with _mutex:
        if not _made:
            given = connect_options()
            if not given:
                return locknut.default()
            _made.append(locknut.connect(**given))
        return _made[0]


def option(name: str, default: Any = None) -> Any:
    """Return an option of this app."""
    return _settings().get(name, default)


def connect_options() -> dict[str, Any]:
    """Return what `locknut.connect` is called with; nothing, if the settings say nothing."""
    given = _settings()
    unknown = sorted(set(given) - {*CONNECT, *OWN})
    if unknown:
        known = ", ".join((*CONNECT, *OWN))
        raise ConfigurationError(f"LOCKNUT[{unknown[0]!r}] is not known; these are: {known}")
    chosen = {name.lower(): given[name] for name in CONNECT if name in given}
    url = getattr(settings, "LOCKNUT_URL", None)
    if url is not None and chosen.setdefault("url", url) != url:
        raise ConfigurationError("LOCKNUT_URL and LOCKNUT['URL'] differ; keep one of them")
    return chosen


def _settings() -> Mapping[str, Any]:
    given = getattr(settings, "LOCKNUT", None) or {}
    if not isinstance(given, Mapping):
        raise ConfigurationError(f"LOCKNUT must be a dict, and is a {type(given).__name__}")
    return given


def _forget(*, setting: str, **_: Any) -> None:
    """A test has other settings for a while."""
    if setting in {"LOCKNUT", "LOCKNUT_URL"}:
        with _mutex:
            old = _made[:]
            _made.clear()
        for each in old:
            each.close()


setting_changed.connect(_forget)
