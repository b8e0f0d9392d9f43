"""Which directory holds the lock files, whether it can be trusted, and the file name of each key.

*The default directory* is the same for a shell, a cron job and a service of one user, survives
logout, and belongs to this user alone. Where it cannot be used, that is an error, and no other
directory is taken instead.

*Trust*: a directory that strangers may write to is refused, because they could swap the files. A
network file system is refused unless the user asks for it: its locks are only as good as its
server.

*File names* are readable where they can be and hashed where they must be, and never the same for
two keys, also where the file system folds case or normalizes Unicode: what stays readable has
neither.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from locknut.backends.file import this_process
from locknut.backends.file.digests import blake2b
from locknut.backends.file.file_layout import KEY_ROOM, encode_key
from locknut.backends.file.outcomes import none_left
from locknut.core.values import Mode
from locknut.errors import BackendError, ConfigurationError
from locknut.runtimes import file_systems

LOCKS: Final = ".lock"
SEMAPHORES: Final = ".permits"

_PLAIN = re.compile(r"[a-z0-9_:-][a-z0-9._:-]{0,119}", re.ASCII)
_UNREADABLE = re.compile(r"[^a-z0-9_=-]+", re.ASCII)
_READABLE = 60


class Directory(NamedTuple):
    """A checked directory: where it really is, and how files in it are shared."""

    path: str
    file_mode: int = 0o600
    device: int = 0
    inode: int = 0
    owner: int = 0
    sticky: bool = False
    private: bool = False
    network: bool = False


def open_directory(path: str, *, network: bool = False) -> Directory:
    """Make the directory if it is not there, and check it."""
    private = not path
    wanted = os.path.abspath(path or default_path())
    if not hasattr(os, "geteuid"):
        with _explained(wanted):
            os.makedirs(wanted, mode=0o700, exist_ok=True)
        return Directory(os.path.realpath(wanted))  # no owners and modes to check on this system
    found, fd = _open(wanted, private=private, network=network)
    this_process.close_fd(fd)
    return found


def open_again(before: Directory) -> tuple[Directory, int]:
    """The directory that this path leads to now, checked anew, and a descriptor of it.

    A directory that a stranger made meanwhile is refused: they could have swapped the lock files.
    """
    found, fd = _open(before.path, private=before.private, network=before.network)
    if found.owner in (before.owner, os.geteuid(), 0):
        return found, fd
    this_process.close_fd(fd)
    message = f"{before.path} was replaced by a directory of another user (uid {found.owner})"
    raise ConfigurationError(message, backend="file")


def _open(wanted: str, *, private: bool, network: bool) -> tuple[Directory, int]:
    with _explained(wanted):
        os.makedirs(wanted, mode=0o700, exist_ok=True)
        if private:
            _refuse_link(wanted)
        real = os.path.realpath(wanted)
        fd = this_process.open_file(real, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        with _explained(wanted):
            return _checked(fd, real, private=private, network=network), fd
    except BaseException:
        this_process.close_fd(fd)
        raise


@contextmanager
def _explained(wanted: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise unusable(wanted, error) from error


def unusable(path: str, error: OSError) -> BackendError:
    """The error for a directory that cannot be used, with what to do."""
    advice = none_left(error) or "; choose another by file:///path"
    message = f"cannot use {path} for lock files: {error.strerror}{advice}"
    return BackendError(message, backend="file")


def default_path() -> str:
    """By $XDG_STATE_HOME or the home directory; for users who have none, below /var/tmp.

    What counts is whose home it is, not whether it can be written to at this moment: a process that
    finds it read-only would go elsewhere than the others of the same user.
    """
    state = os.environ.get("XDG_STATE_HOME", "")
    if os.path.isabs(state) and _is_ours(state, if_missing=True):
        return os.path.join(state, "locknut")
    for home in (os.environ.get("HOME", ""), _home_by_password_database()):
        if os.path.isabs(home) and _is_ours(home, if_missing=False):
            return os.path.join(home, ".local", "state", "locknut")
    return f"/var/tmp/locknut-{_uid()}"  # noqa: S108 -- checked below like any other


def _is_ours(path: str, *, if_missing: bool) -> bool:
    """Not somebody else's, as after `sudo -E`: what root makes there its owner could not use."""
    try:
        return os.stat(path).st_uid == _uid() or not hasattr(os, "geteuid")
    except (FileNotFoundError, NotADirectoryError):
        return if_missing
    except OSError:
        return True  # it is there, and cannot be used: that is said when it is opened


def _home_by_password_database() -> str:
    try:
        import pwd
    except ImportError:
        return os.path.expanduser("~")

    try:
        return pwd.getpwuid(_uid()).pw_dir
    except KeyError:
        return ""


def _uid() -> int:
    return os.geteuid() if hasattr(os, "geteuid") else 0


def _refuse_link(path: str) -> None:
    if stat.S_ISLNK(os.lstat(path).st_mode):
        message = f"{path} is a symbolic link: remove it, or name its target by file:///path"
        raise ConfigurationError(message, backend="file")


def _checked(fd: int, path: str, *, private: bool, network: bool) -> Directory:
    about = os.fstat(fd)
    if private and about.st_uid != os.geteuid():
        message = f"{path} belongs to another user (uid {about.st_uid}): choose one by file:///path"
        raise ConfigurationError(message, backend="file")
    if private and about.st_mode & 0o077:
        os.fchmod(fd, 0o700)
        about = os.fstat(fd)
    if about.st_mode & stat.S_IWOTH:
        message = f"everybody may write to {path}: use a directory of its own inside it"
        raise ConfigurationError(message, backend="file")
    system = file_systems.network_kind(fd)
    if system and not network:
        message = (
            f"{path} is on a network file system ({system}), whose locks depend on its server;"
            " use a local directory, or add ?network=allow"
        )
        raise ConfigurationError(message, backend="file")
    return Directory(
        path,
        file_mode=about.st_mode & 0o666,
        device=about.st_dev,
        inode=about.st_ino,
        owner=about.st_uid,
        sticky=bool(about.st_mode & stat.S_ISVTX),
        private=private,
        network=network,
    )


def file_name(key: str, mode: Mode) -> str:
    """A lock and a semaphore of one name are different things, in different files."""
    return stem(key) + (SEMAPHORES if mode is Mode.PERMIT else LOCKS)


def stem(key: str) -> str:
    """`:` is written `=`, which is never plain; a hash is set off by `~`, which never is either."""
    readable = key.replace(":", "=")
    if _PLAIN.fullmatch(key):
        return readable
    data = encode_key(key)
    if len(data) > KEY_ROOM:
        message = f"name is too long: {len(data)} bytes, at most {KEY_ROOM} fit in a lock file"
        raise ConfigurationError(message, key=key[:60] + "...", backend="file")
    prefix = _UNREADABLE.sub("_", readable.lower())[:_READABLE]
    return f"{prefix}~{blake2b(data, digest_size=16).hexdigest()}"
