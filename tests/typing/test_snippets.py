"""What people copy from the documentation is clean for both type checkers."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.contracts.documentation import blocks_of, pages
from tests.contracts.sources import ROOT

MYPY = ("mypy", "--check-untyped-defs", "--ignore-missing-imports")
STRICT = ("mypy", "--strict", "--ignore-missing-imports")
STRICT_PAGES = [
    ROOT / f"docs/{name}.md" for name in ("django", "one-pod-migrates", "sqlalchemy", "web")
]
"""What goes into the code of a framework that has types."""
FRAGMENT_PAGES = [ROOT / f"docs/{name}.md" for name in ("one-pod-migrates", "django")]
GIVEN = """from typing import Any
engine_from_config: Any; context: Any; target_metadata: Any; Item: Any
"""
"""What the program has that a fragment of these is put into."""


def snippets(folder: Path, among: list[Path]) -> list[str]:
    """Each block in a file of its own, by its page and line; few fragments stand by themselves."""
    written = []
    for page in among:
        name = "_".join(page.relative_to(ROOT).with_suffix("").parts).replace("-", "_")
        for block in blocks_of(page):
            given = GIVEN if "fragment" in block.words else ""
            if not given or page in FRAGMENT_PAGES:
                file = folder / f"{name}_{block.line}.py"
                file.write_text(given + block.code)
                written.append(str(file))
    return written


@pytest.mark.slow
def test_every_example_is_clean_for_mypy_and_pyright(tmp_path: Path) -> None:
    if find_spec("basedpyright") is None:
        pytest.skip("needs CPython with the group `check`")
    strict = snippets(tmp_path, STRICT_PAGES)
    others = snippets(tmp_path, [page for page in pages() if page not in STRICT_PAGES])
    assert len(others) > 50
    settings = tmp_path / "pyrightconfig.json"
    settings.write_text(f'{{"extraPaths": ["{ROOT}/src"], "typeCheckingMode": "standard"}}')
    pyright = ("basedpyright", "--project", str(settings), "--pythonpath", sys.executable)
    for words in (
        [*MYPY, "--cache-dir", str(tmp_path / "cache"), *others],
        [*STRICT, "--cache-dir", str(tmp_path / "strict-cache"), *strict],
        [*pyright, "--level", "error"],
    ):
        done = subprocess.run(
            [sys.executable, "-m", *words],
            cwd=tmp_path,
            env={"MYPYPATH": str(ROOT / "src"), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
