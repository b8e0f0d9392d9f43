"""What is looked at to see whether locks are safe in a directory of lock files."""

from __future__ import annotations

from collections.abc import Iterable

from locknut.backends.file.directory import Directory
from locknut.core.findings import Check, ok, warn
from locknut.core.values import Finding
from locknut.runtimes import directory_health


def checks(directory: Directory, *, ofd_locks: bool) -> list[Check]:
    """`ofd_locks`: whether the kernel has the locks of open file descriptions there."""
    path = directory.path

    async def locks() -> Iterable[Finding]:
        return [_locks(path, ofd_locks=ofd_locks)]

    return [
        Check(("file-locks",), locks),
        directory_health.check("file-system", path, directory_health.file_system),
        directory_health.check("file-permissions", path, directory_health.permissions),
        directory_health.check("file-cleaner", path, directory_health.cleaner),
        directory_health.check("file-space", path, directory_health.space),
    ]


def _locks(path: str, *, ofd_locks: bool) -> Finding:
    code = "file-locks"
    if ofd_locks:
        return ok(code, "The kernel has locks of open file descriptions for this directory.")
    found = (
        f"There are no locks of open file descriptions in {path}, so flock is used: waiters are "
        "not woken but look again and again, and nobody stands in line."
    )
    return warn(code, found, "Use a local file system of Linux (file:///path), or a server.")
