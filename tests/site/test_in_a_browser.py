"""The documentation as people read it: in a real browser, from a disk, without a network."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.servers.processes import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
PATIENCE = 60_000
DESKTOP = {"width": 1280, "height": 900}
PHONE = {"width": 390, "height": 844}
PICTURES = "[...document.images].filter(each => each.complete && !each.naturalWidth).length"
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    subprocess.run(command, cwd=ROOT, env=environment, check=True, timeout=300)
    return folder


class Reader:
    """Somebody with one page open: what went wrong there, and what it asked other hosts for."""

    def __init__(self, browser: Any, screen: dict[str, int]):
        self.context = browser.new_context(viewport=screen, offline=True)
        self.page = self.context.new_page()
        self.problems: list[str] = []
        self.page.set_default_timeout(PATIENCE)
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("request", self._asked)

    def _asked(self, request: Any) -> None:
        if not request.url.startswith(("file:", "data:", "blob:")):
            self.problems.append(f"asks for {request.url}")

    def read(self, page: Path) -> None:
        self.page.goto(page.as_uri())


@pytest.mark.parametrize("screen", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_every_page_fits_and_asks_nobody_for_anything(
    browser: Any, site: Path, screen: dict[str, int]
) -> None:
    reader = Reader(browser, screen)
    pages = sorted(each for each in site.rglob("*.html") if each.name != "404.html")
    assert len(pages) > 50
    wrong = []
    for page in pages:
        reader.read(page)
        if (over := reader.page.evaluate(OVERFLOW)) > 0:
            wrong.append(f"{page.relative_to(site)} is {over} pixels too wide")
        if reader.page.evaluate(PICTURES):
            wrong.append(f"{page.relative_to(site)} has a picture that is missing")
    reader.context.close()
    assert wrong + reader.problems == []


def test_the_search_finds_a_word(browser: Any, site: Path) -> None:
    reader = Reader(browser, DESKTOP)
    reader.read(site / "index.html")
    reader.page.fill("input.md-search__input", "quarantine")
    found = reader.page.locator(".md-search-result__item a").first
    found.wait_for()
    found.click()
    reader.page.wait_for_url("**/*.html*")
    assert "quarantine" in reader.page.content().lower()
    assert reader.problems == []
    reader.context.close()


def test_a_recipe_is_one_click_from_the_first_page(browser: Any, site: Path) -> None:
    reader = Reader(browser, PHONE)
    reader.read(site / "index.html")
    reader.page.locator(".md-content a[href*='one-pod-migrates']").first.click()
    reader.page.wait_for_url("**/one-pod-migrates.html*")
    assert reader.problems == []
    reader.context.close()
