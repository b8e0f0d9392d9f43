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
NEEDED = {"locknut.backends", "locknut.backends.file", "locknut.drivers"}
PARTS = ("backends", "drivers")
OTHERS = ("aio", "dashboard", "guards", "observer", "terminal", "testing")
"""What neither program uses, besides the engines that it does not name."""

MOST = {"import": 63, "run": 115}
"""Modules of ours. Each costs some 0.3 ms to import, so `locknut run` stays below 0.1 s."""

IMPORT = "import locknut"
RUN = "from locknut.cli import main; assert main(['run', 'x', '--', 'true']) == 0"
BUSY = (
    "from locknut.cli import main; import locknut; lease = locknut.lock('x').acquire(); "
    "assert main(['run', '-n', '-q', 'x', '--', 'true']) == 75"
)


def modules(program: str, folder: Path) -> set[str]:
    """What a fresh interpreter has imported at the end of this, and not before. Without `site`: the
    packages of this machine may have files (`*.pth`) that import something beforehand.
    """
    code = f"import sys; before = set(sys.modules); {program}; print(*set(sys.modules) - before)"
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": SOURCE}
    environment |= {"LOCKNUT_URL": f"file:{folder}", "LOGNAME": "me"}
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


@pytest.mark.parametrize("program", [IMPORT, RUN, BUSY], ids=["import", "run", "busy"])
def test_a_short_program_imports_nothing_dear(program: str, tmp_path: Path) -> None:
    found = modules(program, tmp_path)
    assert "locknut.blocking.locks" in found
    assert found & DEAR == set()
    assert not not_needed().intersection(found)


def not_needed() -> set[str]:
    """All other engines, whichever there are, and what is named above."""
    package = Path(SOURCE) / "locknut"
    found = {
        f"locknut.{part}.{each.stem}"
        for part in PARTS
        for each in (package / part).iterdir()
        if each.suffix == ".py" or (each / "__init__.py").exists()
    }
    assert {"locknut.backends.redlock", "locknut.drivers.etcd"} <= found
    assert all((package / each / "__init__.py").exists() for each in OTHERS)
    return (found | {f"locknut.{each}" for each in OTHERS}) - NEEDED


def test_an_import_of_the_library_does_not_bring_the_command_line(tmp_path: Path) -> None:
    found = modules(IMPORT, tmp_path)
    assert not [each for each in found if each.startswith(("locknut.cli", "argparse", "ctypes"))]


@pytest.mark.parametrize(("name", "program"), [("import", IMPORT), ("run", RUN)])
def test_a_short_program_imports_few_of_our_modules(
    name: str, program: str, tmp_path: Path
) -> None:
    ours = [each for each in modules(program, tmp_path) if each.startswith("locknut")]
    assert len(ours) <= MOST[name]
