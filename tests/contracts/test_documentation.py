"""What the documentation shows works: every block of Python runs, every link leads somewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contracts.documentation import Block, blocks, blocks_of, pages
from tests.contracts.sources import ROOT

LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")


def run(block: Block, folder: Path) -> None:
    """Run it as a reader would: in an empty folder, with files of its own to lock."""
    program = folder / "example.py"
    program.write_text(block.code)
    environment = {name: value for name, value in os.environ.items() if name != "LOCKNUT_URL"}
    locks = folder / "locks"
    environment |= {
        "PYTHONPATH": str(ROOT / "src"),
        "XDG_RUNTIME_DIR": str(locks),
        "XDG_STATE_HOME": str(locks),
        "HOME": str(folder),
        "TMPDIR": str(folder),
    }
    locks.mkdir(mode=0o700)
    command = [sys.executable, str(program)]
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, f"{block}\n{block.code}\n{done.stderr}"


@pytest.mark.parametrize("block", blocks(), ids=str)
def test_every_example_runs(block: Block, tmp_path: Path) -> None:
    if "fragment" in block.words:
        compile(block.code, str(block), "exec")
    else:
        run(block, tmp_path)


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_leads_somewhere(page: Path) -> None:
    targets = [target for target in LINK.findall(page.read_text()) if "://" not in target]
    missing = [target for target in targets if not (page.parent / target).exists()]
    assert not missing


def test_every_page_can_be_reached_from_the_readme() -> None:
    """A page that nobody finds does not help."""
    found: set[Path] = set()
    left = [ROOT / "README.md"]
    while left:
        page = left.pop()
        if page in found or page.suffix != ".md":
            continue
        found.add(page)
        targets = [target for target in LINK.findall(page.read_text()) if "://" not in target]
        left += [(page.parent / target).resolve() for target in targets]
    assert not {page.relative_to(ROOT) for page in set(pages()) - found}


PAGE = """
```python
answer = 42
```
Some text.
```python continued
assert answer == 42
```
- in a list:
  ```python redis
  raise SystemExit(1)
  ```
```python
assert False, "this one cannot pass"
```
"""


def test_the_runner_finds_what_cannot_run(tmp_path: Path) -> None:
    page = ROOT / "docs" / "made-up.md"
    first, second, third, fourth = _blocks(tmp_path)
    assert (first.line, second.code) == (2, "answer = 42\n\nassert answer == 42\n")
    assert third.engines == {"redis"}
    assert third.code == "raise SystemExit(1)\n"
    with pytest.raises(AssertionError, match="this one cannot pass"):
        run(fourth._replace(page=page), tmp_path)


def _blocks(folder: Path) -> list[Block]:
    page = folder / "page.md"
    page.write_text(PAGE)
    return blocks_of(page)
