"""Fetches a browser without a screen, and the rules by which a page is judged to be accessible.

The browser is unpacked from the packages of the machine's own release, like the servers. axe, the
rules, is one script, and comes in a wheel.
"""

from __future__ import annotations

from pathlib import Path

from start_programs import write_start
from unpacking import SERVERS, Unobtainable, unpack_packages, unpack_wheel

AXE_WHEEL = "axe-playwright-python==0.1.8"


def fetch_browser(program: Path) -> None:
    tree = SERVERS / "browser"
    unpack_packages(tree, ["chromium-headless-shell"])
    found = sorted(tree.glob("usr/lib/chromium/*headless*shell*"))
    if not found:
        raise Unobtainable("the package has no headless browser")
    write_start(program, found[0])
    unpack_wheel("browser/axe", AXE_WHEEL, "axe_playwright_python/axe.min.js")
