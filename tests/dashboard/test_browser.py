"""The dashboard in a real browser: live, filtered, broken into, judged by axe, on a phone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import locknut
from tests.cli.harness import Shell
from tests.dashboard.browsing import AXE, Holder, Site
from tests.servers.redis import RedisServer

playwright_api = pytest.importorskip("playwright.sync_api")

PAGES = ["/", "/locks", "/lock?at=redis&name=held", "/graph", "/owners", "/events", "/backends"]
PATIENCE = 60_000
expect = playwright_api.expect
expect.set_options(timeout=PATIENCE)
pytestmark = pytest.mark.redis


class Visitor:
    """A page, and what went wrong on it."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.problems: list[str] = []
        page.set_default_timeout(PATIENCE)
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("console", self._heard)

    def _heard(self, message: Any) -> None:
        if message.type in {"error", "warning"}:
            self.problems.append(message.text)


@pytest.fixture
def visitor(browser: Any) -> Iterator[Visitor]:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    yield Visitor(context.new_page())
    context.close()


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with RedisServer() as started:
        yield started


@pytest.fixture
def holder(server: RedisServer) -> Iterator[Holder]:
    with Holder(server.url) as made:
        yield made


@pytest.fixture
def shell(server: RedisServer) -> Iterator[Shell]:
    made = Shell(server.url)
    yield made
    made.close()


@pytest.fixture
def site(shell: Shell) -> Site:
    return Site(shell)


def number(page: Any, title: str) -> Any:
    return page.locator(f".numbers div:has(dt:text-is('{title}')) dd")


def test_the_first_page_is_live(visitor: Visitor, site: Site, holder: Holder) -> None:
    page = visitor.page
    page.goto(site.url)
    expect(number(page, "Held")).to_have_text("0")
    leases = holder.take("held", "another")
    expect(number(page, "Held")).to_have_text("2")
    expect(page.locator("#state-words")).to_have_text("live")
    page.click("#state")
    expect(page.locator("#state-words")).to_have_text("paused")
    for each in leases:
        holder.release(each)
    page.click("#state")
    expect(number(page, "Held")).to_have_text("0")
    assert page.locator(".chart canvas").count() == 2
    assert not visitor.problems


@pytest.mark.usefixtures("patient_closing")
def test_what_happened_before_is_on_the_pages(visitor: Visitor, server: RedisServer) -> None:
    url = f"{server.url}?namespace=before"
    with locknut.connect(url, history=100, label="nightly") as locks, locks.lock("report"):
        pass
    shell, page = Shell(url), visitor.page
    try:
        site = Site(shell)
        page.goto(f"{site.url}/events")
        rows = page.locator(".events tbody tr")
        expect(rows).to_have_count(2)
        expect(rows.first).to_contain_text("released")
        rows.first.locator("a").click()
        expect(page.locator(".timeline")).to_have_attribute("aria-label", re.compile("holds 1,"))
        expect(page.locator(".timeline")).to_contain_text("nightly@")
        assert not visitor.problems
    finally:
        shell.close()


def test_locks_are_filtered_while_one_types_and_stay_so(
    visitor: Visitor, site: Site, holder: Holder
) -> None:
    page = visitor.page
    holder.take("order:1", "order:2", "invoice:1")
    page.goto(f"{site.url}/locks")
    rows = page.locator("#locks tbody tr")
    expect(rows).to_have_count(3)
    page.keyboard.press("/")
    expect(page.locator("#filter")).to_be_focused()
    page.keyboard.type("order:*")
    expect(rows).to_have_count(2)
    assert "filter=order" in page.url
    holder.take("order:3", "invoice:2")
    expect(rows).to_have_count(3)
    expect(page.locator("#filter")).to_be_focused()
    page.reload()
    expect(rows).to_have_count(3)
    page.locator("#locks a").first.focus()
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("order:1")
    assert not visitor.problems


@pytest.mark.slow
def test_a_lock_is_broken_unless_it_changed_hands(
    visitor: Visitor, shell: Shell, holder: Holder
) -> None:
    site, page = Site(shell, "--allow-break"), visitor.page
    page.goto(f"{site.url}/locks")
    expect(page.locator("h1")).to_have_text("Log in")
    site.log_in(page)
    break_it(page, site, holder.take("held")[0])
    expect(page.locator("h1")).to_have_text("Broken")
    (first,) = holder.take("moved")
    page.goto(f"{site.url}/lock?at=redis&name=moved")
    page.click("text=Break lock…")
    holder.release(first)
    (second,) = holder.take("moved")
    say_why(page, "moved")
    expect(page.locator("h1")).to_have_text("Not broken")
    expect(page.locator(".notice")).to_contain_text("changed hands")
    assert holder.do(lambda: second.info().holders)
    page.goto(f"{site.url}/events?kind=broken")
    expect(page.locator("table.events tbody tr")).to_have_count(1)
    expect(page.locator("table.events")).to_contain_text("it hangs")


def break_it(page: Any, site: Site, lease: Any) -> None:
    page.goto(f"{site.url}/lock?at=redis&name={lease.name}")
    page.click("text=Break lock…")
    say_why(page, lease.name)


def say_why(page: Any, name: str) -> None:
    page.fill("#typed", name)
    page.fill("#reason", "it hangs")
    page.click("button.danger")


@pytest.fixture
def every_page(visitor: Visitor, shell: Shell, holder: Holder) -> Iterator[list[str]]:
    """Every page, for a visitor that has logged in; a lock is held and waited for."""
    site = Site(shell, "--allow-break")
    with Holder(shell.environment["LOCKNUT_URL"]) as other:
        (lease,) = holder.take("held")
        other.queue_up("held")
        site.log_in(visitor.page)
        break_it(visitor.page, site, holder.take("broken")[0])
        expect(visitor.page.locator("h1")).to_have_text("Broken")
        paths = [*PAGES, f"/break?at=redis&name=held&fence={lease.fence}", "/login"]
        yield [f"{site.url}{path}" for path in paths]
        holder.release(lease)


@pytest.mark.slow
def test_no_page_breaks_the_policy(visitor: Visitor, every_page: list[str]) -> None:
    for url in every_page:
        visitor.page.goto(url)
        visitor.page.wait_for_load_state("load")
    visitor.page.goto(every_page[0])
    expect(visitor.page.locator(".concerns li")).not_to_have_count(0)
    expect(visitor.page.locator(".chart canvas")).to_have_count(2)
    visitor.page.click("#theme")
    assert not visitor.problems


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_axe_finds_nothing(visitor: Visitor, every_page: list[str]) -> None:
    for scheme in ("light", "dark"):
        visitor.page.emulate_media(color_scheme=scheme)
        for url in every_page:
            visitor.page.goto(url)
            assert not axe(visitor.page), (scheme, url)


def axe(page: Any) -> list[str]:
    """What the rules say against a page; they are run beside it, as a tool of the browser would."""
    page.wait_for_load_state("load")
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run()")["violations"]
    return [f"{each['id']}: {each['nodes'][0]['html']}" for each in found]


@pytest.mark.slow
def test_a_phone_shows_it_without_scrolling_sideways(
    visitor: Visitor, site: Site, holder: Holder
) -> None:
    holder.take("held", "a-name-that-is-longer-than-the-screen-of-a-phone-is-wide:1234567890:abc")
    visitor.page.set_viewport_size({"width": 375, "height": 720})
    for path in PAGES:
        visitor.page.goto(f"{site.url}{path}")
        expect(visitor.page.locator("#state-words")).to_have_text("live")
        assert visitor.page.evaluate("document.scrollingElement.scrollWidth") <= 375, path


@pytest.mark.slow
def test_thousands_of_locks_come_in_pages(visitor: Visitor, site: Site, holder: Holder) -> None:
    page = visitor.page
    leases = holder.take_many([f"order:{at:04}" for at in range(5000)])
    page.goto(f"{site.url}/locks?order=name")
    expect(page.locator("#locks-title")).to_contain_text("5,000 locks")
    assert page.locator("#locks tbody tr").count() == 50
    page.click("#page-next")
    expect(page.locator("#locks tbody th").first).to_have_text("order:0050")
    expect(page.locator("#state-words")).to_have_text("live")  # the new page's scripts have run
    page.fill("#filter", "order:49*")
    expect(page.locator("#locks-title")).to_contain_text("100 locks")
    holder.release(leases)
    expect(page.locator("#live")).to_contain_text("No lock is held")
    assert not visitor.problems


def test_a_server_that_cannot_push_is_asked_and_missed(visitor: Visitor, site: Site) -> None:
    """As under WSGI, or behind a proxy that answers for a server that is gone."""
    page, state = visitor.page, visitor.page.locator("#state-words")
    page.route("**/stream", lambda route: route.fulfill(status=204))
    page.route("**/series*", lambda route: route.abort())
    page.goto(site.url)
    expect(state).to_have_text("every 1 s")
    for gone in (lambda route: route.fulfill(status=502), lambda route: route.abort()):
        page.route(f"{site.url}/", gone)
        expect(state).to_have_text("no answer")
        page.unroute(f"{site.url}/")
        expect(state).to_have_text("every 1 s")
    page.click("#state")
    expect(state).to_have_text("paused")
    page.click("#state")
    expect(state).to_have_text("every 1 s")
    assert not [each for each in visitor.problems if "Failed to fetch" in each]


def test_an_engine_goes_away_and_comes_back(visitor: Visitor, tmp_path: Path) -> None:
    page = visitor.page
    with RedisServer() as server:
        shell = Shell(server.url)
        try:
            site = Site(shell)
            page.goto(site.url)
            expect(number(page, "Engines answering")).to_have_text("1 of 1")
            server.kill()
            expect(page.locator(".concerns")).to_contain_text("the engine does not answer")
            expect(number(page, "Engines answering")).to_have_text("0 of 1")
            server.start()
            expect(number(page, "Engines answering")).to_have_text("1 of 1")
            expect(page.locator(".attention")).to_contain_text("Nothing needs attention")
        finally:
            shell.close()
    assert not visitor.problems
