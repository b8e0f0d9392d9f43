"""What `import locknut` and a short `locknut run` leave alone, so that they start fast.

A job of cron, or a command in a loop, pays for every import each time. These modules of the
standard library are the dear ones that `file:` needs for nothing, or only to wait.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.harness import SOURCE

DEAR = frozenset({
    "asyncio", "bz2", "concurrent.futures", "dataclasses", "email", "hashlib", "importlib.metadata",
    "importlib.util", "inspect", "ipaddress", "json", "logging", "lzma", "multiprocessing",
    "pathlib", "pickle", "queue", "random", "secrets", "selectors", "shutil", "socket",
    "ssl", "subprocess", "tempfile", "textwrap", "tokenize", "traceback", "urllib.parse", "uuid",
})  # fmt: skip
ENGINES = (
    "aio",
    "backends.etcd",
    "backends.memcached",
    "backends.memory",
    "backends.redis",
    "backends.zookeeper",
    "testing",
)

MOST = {"import": 63, "run": 115}
"""Modules of ours. Each costs some 0.3 ms to import, so `locknut run` stays below 0.1 s."""

IMPORT = "import locknut"
RUN = "from locknut.cli import main; assert main(['run', 'x', '--', 'true']) == 0"
BUSY = (
    "from locknut.cli import main; import locknut; lease = locknut.lock('x').acquire(); "
    "assert main(['run', '-n', '-q', 'x', '--', 'true']) == 75"
)


def modules(program: str, folder: Path) -> set[str]:
    """What a fresh interpreter has imported at the end of this, and not before."""
    code = f"import sys; before = set(sys.modules); {program}; print(*set(sys.modules) - before)"
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": SOURCE}
    environment |= {"LOCKNUT_URL": f"file:{folder}", "LOGNAME": "me"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


@pytest.mark.parametrize("program", [IMPORT, RUN, BUSY], ids=["import", "run", "busy"])
def test_a_short_program_imports_nothing_dear(program: str, tmp_path: Path) -> None:
    found = modules(program, tmp_path)
    assert "locknut.blocking.locks" in found
    assert found & DEAR == set()
    assert not [each for each in found for engine in ENGINES if each == f"locknut.{engine}"]


def test_an_import_of_the_library_does_not_bring_the_command_line(tmp_path: Path) -> None:
    found = modules(IMPORT, tmp_path)
    assert not [each for each in found if each.startswith(("locknut.cli", "argparse", "ctypes"))]


@pytest.mark.parametrize(("name", "program"), [("import", IMPORT), ("run", RUN)])
def test_a_short_program_imports_few_of_our_modules(
    name: str, program: str, tmp_path: Path
) -> None:
    ours = [each for each in modules(program, tmp_path) if each.startswith("locknut")]
    assert len(ours) <= MOST[name]
