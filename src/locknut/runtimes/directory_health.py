"""Whether a directory is a good place for locks: its file system, who may change it, who cleans it
up, and what room there is. Each question has the code of the engine that asks it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final

from locknut.core.findings import Check, NotKnown, fail, judged, ok, warn
from locknut.core.values import Finding
from locknut.runtimes import file_systems, tmpfiles

Judge = Callable[[str, str], Finding]
"""Of a code and a path."""
_FEW_BYTES: Final = 1024 * 1024
_FEW_FILES: Final = 100


def check(code: str, path: str, judge: Judge) -> Check:
    """One question; what the system does not say is `unknown`."""

    async def ask() -> list[Finding]:
        return [judged(code, lambda: _explained(code, path, judge))]

    return Check((code,), ask)


def _explained(code: str, path: str, judge: Judge) -> Finding:
    try:
        return judge(code, path)
    except OSError as error:
        raise NotKnown(f"The system does not say: {error.strerror}.") from error


def file_system(code: str, path: str) -> Finding:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        network, layered = file_systems.network_kind(fd), file_systems.is_overlay(fd)
    finally:
        os.close(fd)
    if network:
        found = f"{path} is on a network file system ({network}): locks are as good as its server."
        return warn(code, found, "Use a local directory, or an engine that is a server.")
    if layered:
        found = f"{path} is in the layers of a container: processes outside have other locks."
        return warn(code, found, "Mount a volume there that all of them share, or use a server.")
    return ok(code, f"{path} is on a local file system.")


def permissions(code: str, path: str) -> Finding:
    mode = Path(path).stat().st_mode
    if mode & stat.S_IWGRP and not mode & stat.S_ISGID:
        found = f"A group may write to {path}, but files there get the group of whoever makes them."
        return warn(code, found, f"Set the setgid bit: chmod g+s {path}.")
    for above in Path(path).parents:
        mode = above.stat().st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            found = f"Everybody may write to {above}, and put another directory in place of ours."
            return fail(code, found, f"Take that right away (chmod o-w {above}), or move.")
    return ok(code, f"Nobody but those who share {path} can change it.")


def cleaner(code: str, path: str) -> Finding:
    rule = tmpfiles.cleaning(path)
    if rule is None:
        return ok(code, f"No rule of systemd-tmpfiles cleans {path} up.")
    found = (
        f"systemd-tmpfiles removes what is older than {rule.age} below {rule.path} ({rule.file}), "
        "and lock files with it, held or not."
    )
    advice = f"Exclude it by a line in /etc/tmpfiles.d/locknut.conf: x {path}"
    return warn(code, found, advice)


def space(code: str, path: str) -> Finding:
    told = os.statvfs(path)
    left = told.f_bavail * told.f_frsize
    files = told.f_favail if told.f_files else None  # some file systems do not count them
    if left == 0 or files == 0:
        what = "space" if left == 0 else "inodes"
        found = f"There is no {what} left where {path} is: no lock can be taken under a new name."
        return fail(code, found, "Make room there, or use another directory.")
    if left < _FEW_BYTES or (files is not None and files < _FEW_FILES):
        some = f"{left // 1024} KiB" if left < _FEW_BYTES else f"{files} inodes"
        found = f"Only {some} are left where {path} is: locks under new names need some."
        return warn(code, found, "Make room there, or use another directory.")
    return ok(code, "There is room for more locks.")
