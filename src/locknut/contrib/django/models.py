"""What the admin and its permissions need to know of a lock; there is no table of it."""

from __future__ import annotations

from typing import ClassVar

from django.db import models


class Lock(models.Model):  # type: ignore[misc]  # Django has no types
    """A lock of the engine, as the admin lists it."""

    name = models.TextField(primary_key=True)

    class Meta:
        """No table, and two permissions."""

        managed = False
        default_permissions = ("view",)
        permissions: ClassVar = [("break_lock", "Can break lock")]
        verbose_name = "lock"
        verbose_name_plural = "locks"

    def __str__(self) -> str:
        return str(self.name)
