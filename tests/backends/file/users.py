"""Other users of this machine, for tests that run as root, and a directory they share."""

from __future__ import annotations

import codecs
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

GROUP = 2000


@contextmanager
def shared_directory(mode: int) -> Iterator[Path]:
    """Where others can get at it: pytest's own directories are private."""
    path = Path(tempfile.mkdtemp(prefix="locknut-shared-"))
    os.chown(path, 0, GROUP)
    path.chmod(mode)
    yield path
    shutil.rmtree(path)


def by_user(uid: int, work: Callable[[], Any], group: int = GROUP) -> Any:
    """What this work returns (or says, if it fails) in a process of another user."""
    codecs.lookup("ascii")  # the other user may not be able to read Python's own files
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([GROUP])
            os.setresgid(group, group, group)
            os.setresuid(uid, uid, uid)
            said = {"value": work()}
        except BaseException as error:  # noqa: BLE001 -- told to the test
            said = {"error": f"{type(error).__name__}: {error}"}
        os.write(writer, json.dumps(said).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        told = json.loads(pipe.read())
    os.waitpid(pid, 0)
    return told.get("value", told.get("error"))
