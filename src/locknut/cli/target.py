"""Which engine a command talks to, in which namespace, and under which name it is seen there."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

import locknut
from locknut.errors import ConfigurationError
from locknut.urls import parse

if TYPE_CHECKING:
    from locknut.cli.arguments import Options


_OF_PYTHON = ("C.UTF-8", "C.utf8", "UTF-8")
"""What Python sets LC_CTYPE to."""


def locks(options: Options, *, label: str = "", require: tuple[str, ...] = ()) -> locknut.Locks:
    """The engine of -u, of $LOCKNUT_URL, or the files of this user on this machine."""
    if options.url is not None and parse(options.url).scheme == "memory":
        raise ConfigurationError("memory: excludes nobody outside this process; choose another URL")
    namespace = namespace_of(options)
    return locknut.connect(options.url, namespace=namespace, label=label, require=require)


def namespace_of(options: Options) -> str | None:
    """What was asked for besides the URL: --namespace; the variable, where the URL has none."""
    in_url = options.url is not None and "namespace" in parse(options.url).options
    return None if in_url and "namespace" in options.from_environment else options.namespace


def environment() -> dict[str, str]:
    """The environment that we were started with.

    Where there is no locale (cron), Python sets LC_CTYPE for itself, in its environment too; what
    the kernel keeps of our start is as it was.
    """
    variables = dict(os.environ)
    if variables.get("LC_CTYPE") in _OF_PYTHON:
        with suppress(OSError), open("/proc/self/environ", "rb") as start:  # noqa: PTH123  # slow to import
            began = dict(entry.partition(b"=")[::2] for entry in start.read().split(b"\0"))
            del variables["LC_CTYPE"]
            if b"LC_CTYPE" in began:
                variables["LC_CTYPE"] = os.fsdecode(began[b"LC_CTYPE"])
    return variables


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
