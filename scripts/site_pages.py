"""What the documentation site has beyond the folder `docs`: README as its first page, and the rest.

mkdocs calls these functions (`hooks` in mkdocs.yml). Pages that people also read in a clone stay
where they are; the site gets each under a name of its own, and links between them are turned to
where they lead there. A file that is no page, such as an example, is put beside the pages.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
PAGES = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "examples/README.md": "examples.md",
    "scripts/api_page.md": "api.md",
}
"""From where a page is in the tree to where it is on the site."""
WORDS = re.compile(r"^(\s*```\w+) .*$", re.MULTILINE)
"""How a block of code is run (`tests/contracts/documentation.py`), which is for no reader."""
LINK = re.compile(r"(\]\()([^)#\s]+)((?:#[^)]*)?\))")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for source, page in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text()))
    linked = {
        target
        for file in files.documentation_pages()
        for target in _targets(file.src_uri, file.content_string)
    }
    for target in sorted(linked - PAGES.keys()):
        if not target.startswith("docs/") and (ROOT / target).is_file():
            files.append(File.generated(config, target, abs_src_path=str(ROOT / target)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001  # mkdocs passes them
    here = page.file.src_uri

    def turned(found: re.Match[str]) -> str:
        before, target, after = found.groups()
        if "://" in target:
            return found.group(0)
        there = _in_site(_in_tree(here, target))
        return before + posixpath.relpath(there, posixpath.dirname(here) or ".") + after

    return WORDS.sub(r"\1", LINK.sub(turned, markdown))


def _targets(page: str, markdown: str) -> set[str]:
    """What the links of a page lead to, as paths in the tree."""
    found = (target for _, target, _ in LINK.findall(markdown) if "://" not in target)
    return {_in_tree(page, target) for target in found}


def _in_tree(page: str, target: str) -> str:
    sources = {there: source for source, there in PAGES.items()}
    source = sources.get(page, f"docs/{page}")
    return posixpath.normpath(posixpath.join(posixpath.dirname(source), target))


def _in_site(path: str) -> str:
    return PAGES.get(path) or path.removeprefix("docs/")
