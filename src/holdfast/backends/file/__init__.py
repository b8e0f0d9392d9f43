"""The file engine: locks between the processes of one machine, kept by its kernel; no server."""

from __future__ import annotations

from typing import Final, Protocol

from holdfast.backends.file.directory import open_directory
from holdfast.backends.file.engine import FileEngine
from holdfast.errors import ConfigurationError

__all__ = ["FileEngine", "open_engine"]

_OPTIONS: Final = {"network": ("allow", "refuse")}


class Url(Protocol):
    """What is asked of a parsed URL here."""

    @property
    def path(self) -> str: ...

    @property
    def options(self) -> dict[str, str]: ...


def open_engine(url: Url) -> FileEngine:
    """`file:` is this user's own directory, `file:///path` any other."""
    for option, value in url.options.items():
        if option not in _OPTIONS:
            message = f"file: does not know the option {option!r}; it knows {', '.join(_OPTIONS)}"
            raise ConfigurationError(message, backend="file")
        if value not in _OPTIONS[option]:
            message = f"{option}={value!r}: expected {' or '.join(_OPTIONS[option])}"
            raise ConfigurationError(message, backend="file")
    network = url.options.get("network") == "allow"
    return FileEngine(open_directory(url.path, network=network), network=network)
