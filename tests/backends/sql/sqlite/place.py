"""A database file for a test: backends on it, and programs in other processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from locknut.backends.sql.backend import SqlBackend
from locknut.core.values import Claim, Granted
from locknut.runtimes.threads import ThreadRuntime, run
from locknut.urls import open_engine


def url(folder: Path, options: str = "") -> str:
    return f"sqlite://{folder}/locks.db{options}"


def backend(folder: Path, options: str = "", now: Any = None) -> SqlBackend:
    runtime = ThreadRuntime() if now is None else ThreadRuntime(now)
    made = open_engine(url(folder, options))[0].blocking(runtime)
    assert isinstance(made, SqlBackend)
    return made


def claim(key: str = "t:x", ttl: float = 30.0, **facts: Any) -> Claim:
    return Claim(key, ThreadRuntime().new_id(), ttl, **facts)


def take(made: SqlBackend, wanted: Claim) -> int:
    answer = run(made.attempt(wanted, 0.0))
    assert isinstance(answer, Granted), answer
    return answer.raw


def program(text: str, *arguments: object) -> subprocess.Popen[str]:
    """Another process; its stdin and stdout are pipes."""
    words = [sys.executable, "-c", text, *map(str, arguments)]
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def heard(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()
