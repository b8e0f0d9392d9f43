"""The app `locknut`, as INSTALLED_APPS has it."""

from __future__ import annotations

from django.apps import AppConfig


class LocknutConfig(AppConfig):  # type: ignore[misc]  # Django has no types
    """Its checks, its command and its page in the admin."""

    name = "locknut.contrib.django"
    label = "locknut"
    verbose_name = "Locknut"
    default_auto_field = "django.db.models.AutoField"

    def ready(self) -> None:
        from locknut.contrib.django import system_checks  # not before the settings are there

        system_checks.register_all()
