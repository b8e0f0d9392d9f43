"""The file engine: locks between the processes of one machine, kept by its kernel; no server."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final, Protocol

from locknut.backends.file.directory import open_directory, unusable
from locknut.core import validation
from locknut.errors import ConfigurationError

if TYPE_CHECKING:
    from locknut.backends.file.directory import Directory
    from locknut.backends.file.engine import FileEngine
    from locknut.backends.file.flock_engine import FlockEngine

__all__ = ["open_engine"]

_OPTIONS: Final = {"network": ("allow", "refuse")}


class Url(Protocol):
    """What is asked of a parsed URL here."""

    @property
    def netloc(self) -> str: ...

    @property
    def path(self) -> str: ...

    @property
    def options(self) -> dict[str, str]: ...


def open_engine(url: Url) -> FileEngine | FlockEngine:
    """`file:` is this user's own directory, `file:///path` any other."""
    validation.check_options("file", url.options, _OPTIONS)
    for option, value in url.options.items():
        if value not in _OPTIONS[option]:
            message = f"{option}={value!r}: expected {' or '.join(_OPTIONS[option])}"
            raise ConfigurationError(message, backend="file")
    _refuse_elsewhere(url)
    if "locknut.cli" not in sys.modules:  # which has signal handlers of its own, and starts quickly
        import socket  # noqa: F401  # an interrupted import would block all threads that need it
    network = url.options.get("network") == "allow"
    return _engine_in(open_directory(url.path, network=network), network=network)


def _refuse_elsewhere(url: Url) -> None:
    """A path that would mean something else than it looks like."""
    if url.netloc not in ("", "localhost"):
        message = (
            f"file://{url.netloc}{url.path} names a host, {url.netloc!r}: a path on this machine"
            f" has three slashes, file:///{url.netloc}{url.path}"
        )
        raise ConfigurationError(message, backend="file")
    if url.path and not url.path.startswith(("/", os.sep)):
        message = (
            f"file:{url.path} depends on the current directory, so that two processes could be in"
            " different places: give the whole path, file:///path"
        )
        raise ConfigurationError(message, backend="file")
    if "\0" in url.path:
        raise ConfigurationError("the path of a file: URL has a NUL character", backend="file")


def _has_fcntl() -> bool:
    try:
        import fcntl  # noqa: F401  # not on every system
    except ImportError:
        return False
    return True


def _engine_in(directory: Directory, *, network: bool) -> FileEngine | FlockEngine:
    """The best engine this system can have: which one, is asked of the system itself."""
    if _has_fcntl():
        from locknut.backends.file import engine, ofd_locks

        try:
            works = ofd_locks.works(directory.path)
        except OSError as error:
            raise unusable(directory.path, error) from error
        if works:
            return engine.FileEngine(directory, network=network)
    from locknut.backends.file.flock_engine import FlockEngine

    return FlockEngine(directory)
