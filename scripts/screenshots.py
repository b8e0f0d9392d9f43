"""Makes the pictures of the documentation, from the trouble that `make demo-ops` plays.

.venv/bin/python scripts/screenshots.py        into docs/images; needs the browser of `make servers`
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import locknut  # noqa: E402  # after the path
from locknut.terminal.top_app import TopApp  # noqa: E402
from tests.dashboard.browsing import launch  # noqa: E402

IMAGES = ROOT / "docs" / "images"
UNTIL = 40.0
"""Seconds of trouble before the first picture."""
SHOTS = {
    "dashboard-overview": ("/", "light", (1280, 840)),
    "dashboard-lock": ("/lock?at=redis&name=inventory:17", "light", (1280, 840)),
    "dashboard-phone": ("/", "dark", (390, 760)),
}


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    command = [sys.executable, "-u", str(ROOT / "scripts" / "demo_ops.py"), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as demo:
        try:
            assert demo.stdout is not None  # noqa: S101  # it is a pipe
            said = [demo.stdout.readline().split() for _ in range(3)]
            time.sleep(UNTIL)
            with sync_playwright() as playwright:
                browser = launch(playwright)
                for name, (path, scheme, size) in SHOTS.items():
                    context = browser.new_context(
                        viewport={"width": size[0], "height": size[1]}, color_scheme=scheme
                    )
                    _shoot(context.new_page(), said[0][-1].rstrip("/") + path, name)
                    context.close()
                url = said[2][-1]
                with ThreadPoolExecutor(1) as thread:  # here runs the loop of playwright
                    drawn = thread.submit(lambda: asyncio.run(_terminal(url))).result()
                page = browser.new_page(viewport={"width": 1000, "height": 504})
                page.set_content(f"<body style='margin:0'>{drawn}</body>")
                _save(page, "top")
                browser.close()
        finally:
            demo.terminate()


def _shoot(page: Page, url: str, name: str) -> None:
    page.goto(url)
    page.wait_for_selector("#state[data-kind=live]")
    page.wait_for_timeout(1500)  # the charts are drawn
    _save(page, name)


def _save(page: Page, name: str) -> None:
    page.screenshot(path=IMAGES / f"{name}.png")
    print(f"docs/images/{name}.png: {(IMAGES / f'{name}.png').stat().st_size // 1024} KB")


async def _terminal(url: str) -> str:
    """As SVG, without the fonts that it would fetch from elsewhere."""
    with locknut.connect(url) as locks:
        app = TopApp(locks, refresh=0.5)
        async with app.run_test(size=(110, 26)) as pilot:
            while app.observer.picture.version < 3:
                await pilot.pause(0.1)
            return re.sub(r"@font-face \{.*?\}", "", app.export_screenshot(), flags=re.DOTALL)


if __name__ == "__main__":
    main()
