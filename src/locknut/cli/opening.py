"""Which engine a command talks to, and under which name it is seen there."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

import locknut

if TYPE_CHECKING:
    from locknut.cli.arguments import Options


def locks(options: Options, *, label: str = "", require: tuple[str, ...] = ()) -> locknut.Locks:
    """The engine of -u, $LOCKNUT_URL or this machine's files."""
    return locknut.connect(options.url, namespace=options.namespace, label=label, require=require)


def user() -> str:
    """Who runs this, for others to see."""
    for variable in ("LOGNAME", "USER"):
        if name := os.environ.get(variable):
            return name
    with suppress(ImportError, KeyError):
        import pwd  # not on every system

        return pwd.getpwuid(os.getuid()).pw_name
    return str(os.getuid())


def identity(label: str) -> str:
    """deploy@web-3:4121, as `show` and the busy message write it."""
    return f"{label}@{os.uname().nodename}:{os.getpid()}"
