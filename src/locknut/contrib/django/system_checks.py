"""What `manage.py check` says about the locks of a site; no server is asked.

locknut.E001    the settings are wrong
locknut.E002    the engine's driver is not installed
locknut.W001    another app's `migrate` is in front of ours: there is no `--with-lock`
locknut.W002    the engine does not reach other hosts (with --deploy)
locknut.W003    the engine does not even reach other processes (with --deploy)
"""

from __future__ import annotations

from typing import Any

from django.core import checks
from django.core.management import get_commands

from locknut import ConfigurationError
from locknut.contrib.django.configured_locks import locks

TAG = "locknut"
APP = "locknut.contrib.django"
ONE_HOST = frozenset({"file", "sqlite"})
_ANOTHER = 'Set LOCKNUT_URL to a server that all hosts reach, such as "redis://cache.example".'


def register_all() -> None:
    """Let Django ask."""
    checks.register(check_settings, TAG)
    checks.register(check_migrate, TAG)
    checks.register(check_reach, TAG, deploy=True)


def check_settings(**_: Any) -> list[Any]:
    """Whether a Locks can be made of the settings."""
    try:
        locks()
    except ConfigurationError as wrong:
        missing = isinstance(wrong.__cause__, ImportError)
        return [checks.Error(str(wrong), id=f"{TAG}.{'E002' if missing else 'E001'}")]
    return []


def check_migrate(**_: Any) -> list[Any]:
    """Whether `manage.py migrate` is ours, which passes on to the next one."""
    first = get_commands().get("migrate")
    name = getattr(first, "__module__", first)
    if name == APP or str(name).startswith(f"{APP}."):
        return []
    return [
        checks.Warning(
            f"`migrate` is the command of {name}, so there is no `migrate --with-lock`.",
            hint=f'Put "{APP}" in front of it in INSTALLED_APPS: it calls that command.',
            id=f"{TAG}.W001",
        )
    ]


def check_reach(**_: Any) -> list[Any]:
    """Whether other hosts see the same locks."""
    try:
        found = locks()
    except ConfigurationError:
        return []  # said already
    if found.backend == "memory":
        said = "The locks are in the memory of each process, so no other process sees them."
        return [checks.Warning(said, hint=_ANOTHER, id=f"{TAG}.W003")]
    if found.backend in ONE_HOST:
        said = f"The locks are in {found.place}, which other hosts do not see."
        hint = f"{_ANOTHER} If there is one host only, silence this check."
        return [checks.Warning(said, hint=hint, id=f"{TAG}.W002")]
    return []
