"""What the URL of an etcd engine says beside its driver's part: a place, and a time to live."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from locknut.core import validation
from locknut.drivers.etcd import settings
from locknut.errors import ConfigurationError

if TYPE_CHECKING:
    from locknut.urls import Url

SESSION_TTL: Final = 10.0


@dataclass(frozen=True, slots=True)
class Settings:
    """One cluster, and one place for locks in it."""

    driver: settings.Settings
    root: bytes = b""
    """What every key of ours begins with."""
    session_ttl: float = SESSION_TTL
    """Seconds after which what a dead process had is free."""

    @property
    def place(self) -> str:
        """What may be shown."""
        return f"{self.driver.place}/{self.root.decode(errors='replace')}".removesuffix("/")


def from_url(url: Url) -> Settings:
    """The settings of a URL; what it should not say is refused here."""
    driver = settings.read(url, ("session_ttl",))
    ttl = validation.seconds(url.options.get("session_ttl", SESSION_TTL), "session_ttl")
    if not 2 <= ttl <= 3600:
        given = url.options.get("session_ttl")
        message = f"session_ttl must be between 2 s and 1 h, got {given!r}"
        raise ConfigurationError(message, backend=settings.NAME)
    path = url.path.removeprefix("/").rstrip("/")
    return Settings(driver, path.encode() + b"/" if path else b"", ttl)
