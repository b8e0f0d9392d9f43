"""How long a view of many locks is busy with itself: `locknut top`, and a page in a browser.

    python -m benchmarks.redrawing --locks 5000 --redraws 20

Another process holds the locks in a Redis of its own. Of `top` the processor time of a redraw is
told, and of a page that of the browser's main thread for one tick: script, style, layout and all
else. How long each took is told as well, which on a busy machine is much more.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import time
from contextlib import ExitStack
from statistics import median
from typing import Any

from textual.widgets import DataTable

import locknut
from benchmarks.looking import HOLDER
from locknut.terminal.top_app import Tick, TopApp
from tests.cli.harness import Shell
from tests.dashboard.browsing import Site, launch
from tests.servers.redis import RedisServer

PAGES = {"locks": "/locks", "one part further": "/locks?page=20", "overview": "/"}
WATCH_TASKS = """
    window.longest = 0;
    new PerformanceObserver((list) => list.getEntries().forEach((each) => {
        window.longest = Math.max(window.longest, each.duration);
    })).observe({type: "longtask"});
    window.ticks = 0;
    document.body.addEventListener("htmx:afterSettle", () => { window.ticks += 1; });
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--locks", type=int, default=5000)
    parser.add_argument("--redraws", type=int, default=20)
    options = parser.parse_args()
    with ExitStack() as stack:
        server = stack.enter_context(RedisServer())
        command = [sys.executable, "-c", HOLDER, server.url, str(options.locks)]
        holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        stack.callback(holder.wait)
        stack.callback(holder.kill)
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        locks = stack.enter_context(locknut.connect(server.url))
        print(json.dumps({"top": asyncio.run(_top(locks, options.redraws))}), flush=True)
        print(json.dumps(_pages(server.url, options.redraws)))


async def _top(locks: locknut.Locks, redraws: int) -> dict[str, Any]:
    app = TopApp(locks, refresh=3600.0)
    async with app.run_test(size=(140, 45)) as pilot:
        while not app.observer.picture.locks:
            await pilot.pause(0.05)
        table = app.query_one("#table", DataTable)
        worked: list[float] = []
        took: list[float] = []
        for _ in range(redraws):
            began, own = time.perf_counter(), time.thread_time()
            app.on_tick(Tick())
            await pilot.pause()  # until everything that follows from it is done
            worked.append(time.thread_time() - own)
            took.append(time.perf_counter() - began)
        return {
            "locks": len(app.observer.picture.locks),
            "rows": table.row_count,
            "processor for a redraw, ms": _milliseconds(worked),
            "until it is on the screen, ms": _milliseconds(took),
        }


def _pages(url: str, redraws: int) -> dict[str, Any]:
    from playwright.sync_api import sync_playwright  # what `make servers` fetched a browser for

    shell = Shell(url)
    try:
        site = Site(shell)
        with sync_playwright() as playwright:
            browser = launch(playwright)
            found = {
                name: _page(browser, f"{site.url}{path}", redraws) for name, path in PAGES.items()
            }
            browser.close()
            return found
    finally:
        shell.close()


def _page(browser: Any, address: str, redraws: int) -> dict[str, Any]:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(address)
    page.wait_for_selector("#state[data-kind=live]")
    page.evaluate(WATCH_TASKS)
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})  # not the time in queues
    before, ticks = _metrics(session), page.evaluate("window.ticks")
    # Ticks of our own: the engine is listed as seldom as many locks deserve.
    answers = [page.evaluate(ONE_TICK) / 1000 for _ in range(redraws)]
    after = _metrics(session)
    number = page.evaluate("window.ticks") - ticks
    longest = page.evaluate("window.longest")
    page.close()
    per_tick = {
        name: round(1000 * (after[name] - before[name]) / max(1, number), 1)
        for name in ("TaskDuration", "ScriptDuration", "LayoutDuration", "RecalcStyleDuration")
    }
    return {
        "ticks": number,
        "processor for a tick, ms": per_tick,
        "longest task, ms (0: below 50)": round(longest, 1),
        "until a tick is on the page, ms": _milliseconds(answers),
    }


ONE_TICK = """
    () => new Promise((done) => {
        const began = performance.now();
        document.body.addEventListener(
            "htmx:afterSettle", () => done(performance.now() - began), {once: true});
        htmx.trigger(document.body, "tick");
    })
"""


def _metrics(session: Any) -> dict[str, float]:
    told = session.send("Performance.getMetrics")["metrics"]
    return {each["name"]: each["value"] for each in told}


def _milliseconds(seconds: list[float]) -> dict[str, float]:
    return {
        "median": round(1000 * median(seconds), 1),
        "longest": round(1000 * max(seconds), 1),
    }


if __name__ == "__main__":
    main()
