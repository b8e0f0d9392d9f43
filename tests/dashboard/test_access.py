"""Who gets in, and who may break: hosts, passphrases, forms that are not ours, headers."""

from __future__ import annotations

import re

import pytest

import locknut
from locknut.dashboard.access import LOOPBACK, Access
from locknut.dashboard.uvicorn_server import Listening, access_for, is_loopback
from locknut.errors import ConfigurationError
from tests.dashboard.conftest import Visit
from tests.dashboard.visitors import Visitor
from tests.observer.people import held

PASSPHRASE = "correct horse battery"


def guarded(visit: Visit) -> Visitor:
    return visit(access=Access(passphrase=PASSPHRASE, hosts=LOOPBACK))


def log_in(client: Visitor, passphrase: str = PASSPHRASE) -> int:
    stamp = stamp_in(client.get("/login").text)
    form = {"passphrase": passphrase, "stamp": stamp}
    return client.post("/login", data=form, follow_redirects=False).status_code


def stamp_in(html: str) -> str:
    (found,) = re.findall(r'name="stamp" value="([0-9a-f]+)"', html)
    return str(found)


@pytest.mark.parametrize("host", ["localhost:8437", "127.0.0.1", "[::1]:8437", "LOCALHOST"])
def test_our_own_names_are_known(visit: Visit, host: str) -> None:
    client = visit(access=Access(hosts=LOOPBACK))
    assert client.get("/", headers={"host": host}).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "127.0.0.1.nip.io", ""])
def test_a_foreign_name_for_our_address_is_refused(visit: Visit, host: str) -> None:
    """DNS rebinding: a page of theirs is made to believe that we are theirs."""
    client = visit(access=Access(hosts=LOOPBACK))
    for path in ("/", "/locks", "/stream", "/static/dashboard.js"):
        assert client.get(path, headers={"host": host}).status_code == 421


@pytest.mark.parametrize("path", ["/", "/locks", "/lock?at=memory&name=x", "/static/dashboard.css"])
def test_every_answer_has_a_strict_policy(visit: Visit, path: str) -> None:
    headers = visit().get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"]


def test_no_page_has_a_script_or_a_style_of_its_own(visit: Visit, locks: locknut.Locks) -> None:
    """The policy would keep it from working."""
    with locks.lock("x"):
        client = visit(allow_break=True)
        paths = [
            "/",
            "/locks",
            "/lock?at=memory&name=x",
            "/break?at=memory&name=x&fence=1",
            "/login",
        ]
        for path in paths:
            html = client.get(path).text
            assert not re.findall(r"<script>|<style|\sstyle=|\son\w+=|javascript:", html), path
            assert not re.findall(r'(?:src|href|action)="(?:https?:)?//', html), path


@pytest.mark.parametrize("path", ["/locks", "/series", "/stream", "/lock?at=memory&name=x"])
def test_without_the_passphrase_nothing_is_shown(visit: Visit, path: str) -> None:
    answer = guarded(visit).get(path, follow_redirects=False)
    assert answer.status_code in {303, 401}
    assert guarded(visit).get(path, headers={"hx-request": "true"}).status_code == 401


def test_with_it_everything_is(visit: Visit) -> None:
    client = guarded(visit)
    assert log_in(client) == 303
    assert client.get("/locks", follow_redirects=False).status_code == 200
    cookies = client.cookies.jar
    assert all(each.has_nonstandard_attr("HttpOnly") for each in cookies)
    assert {each.get_nonstandard_attr("SameSite") for each in cookies} == {"strict"}
    assert PASSPHRASE not in str([each.value for each in cookies])


def test_a_script_gives_it_in_a_header(visit: Visit) -> None:
    client = guarded(visit)
    right = {"authorization": f"Bearer {PASSPHRASE}"}
    assert client.get("/locks", headers=right).status_code == 200
    wrong = {"authorization": "Bearer guess"}
    assert client.get("/locks", headers=wrong, follow_redirects=False).status_code == 303


def test_a_passphrase_may_have_any_letters(visit: Visit) -> None:
    client = visit(access=Access(passphrase="Größenwahn im Schloß"))
    right = {"authorization": "Bearer Größenwahn im Schloß".encode()}
    assert client.get("/locks", headers=right).status_code == 200
    wrong = {"authorization": "Bearer Größenwahn im Schloß".encode("latin-1")}
    assert client.get("/locks", headers=wrong, follow_redirects=False).status_code == 303


def test_a_wrong_one_is_refused(visit: Visit) -> None:
    client = guarded(visit)
    assert log_in(client, "correct horse") == 403
    assert client.get("/locks", follow_redirects=False).status_code == 303


@pytest.mark.parametrize("forged", ["", "1.2", "99999999999.00", "é.ü"])
def test_a_session_cannot_be_made_up(visit: Visit, forged: str) -> None:
    client = guarded(visit)
    cookie = f"locknut_session_8437={forged}".encode()
    answer = client.get("/locks", headers={"cookie": cookie}, follow_redirects=False)
    assert answer.status_code == 303


def broken(client: Visitor, lease: locknut.Lease, **changes: str) -> int:
    page = client.get(f"/break?at=memory&name=x&fence={lease.fence}")
    form = {
        "stamp": stamp_in(page.text),
        "at": "memory",
        "name": "x",
        "fence": str(lease.fence),
        "typed": "x",
        "reason": "it hangs",
    }
    headers = {
        key[7:].replace("_", "-"): changes.pop(key) for key in list(changes) if key[:7] == "header_"
    }
    return client.post("/break", data=form | changes, headers=headers).status_code


def test_a_lock_is_broken_by_our_own_form(visit: Visit, locks: locknut.Locks) -> None:
    lease = held(locks, "x")
    client = visit(allow_break=True)
    assert broken(client, lease) == 200
    assert not locks.info("x").holders
    assert "it hangs (in the dashboard)" in client.get("/events").text


@pytest.mark.parametrize(
    "changes",
    [
        {"stamp": ""},
        {"stamp": "0" * 64},
        {"header_origin": "http://evil.example"},
        {"header_sec_fetch_site": "cross-site"},
        {"typed": "y"},
        {"reason": "  "},
        {"fence": ""},
    ],
    ids=str,
)
def test_every_other_form_breaks_nothing(
    visit: Visit, locks: locknut.Locks, changes: dict[str, str]
) -> None:
    lease = held(locks, "x")
    client = visit(allow_break=True)
    assert broken(client, lease, **changes) in {403, 404, 422}
    assert lease.held
    assert locks.info("x").holders


def test_the_form_of_another_visitor_breaks_nothing(visit: Visit, locks: locknut.Locks) -> None:
    lease = held(locks, "x")
    client = visit(allow_break=True)
    stolen = stamp_in(client.get(f"/break?at=memory&name=x&fence={lease.fence}").text)
    client.cookies.clear()
    assert broken(client, lease, stamp=stolen) == 403
    assert locks.info("x").holders


def test_a_lock_that_changed_hands_is_left_alone(visit: Visit, locks: locknut.Locks) -> None:
    first = held(locks, "x")
    client = visit(allow_break=True)
    page = client.get(f"/break?at=memory&name=x&fence={first.fence}").text
    first.release()
    second = held(locks, "x")
    form = {"stamp": stamp_in(page), "at": "memory", "name": "x", "fence": str(first.fence)}
    answer = client.post("/break", data=form | {"typed": "x", "reason": "it hangs"})
    assert answer.status_code == 409
    assert "changed hands" in answer.text
    assert second.held
    assert [each.fence for each in locks.info("x").holders] == [second.fence]


def test_without_the_option_there_is_no_breaking(visit: Visit, locks: locknut.Locks) -> None:
    lease = held(locks, "x")
    client = visit()
    assert "/break" not in client.get("/lock?at=memory&name=x").text
    assert client.get(f"/break?at=memory&name=x&fence={lease.fence}").status_code == 403
    ours = stamp_in(client.get("/login").text)  # a form of ours is there, but not this one
    form = {"at": "memory", "name": "x", "fence": str(lease.fence), "typed": "x", "reason": "y"}
    assert client.post("/break", data=form | {"stamp": ours}).status_code == 403
    assert locks.info("x").holders


def test_a_form_that_never_ends_is_not_read(visit: Visit) -> None:
    client = visit(allow_break=True)
    assert client.post("/break", data={"reason": "x" * 100_000}).status_code == 403


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.7", "::", "web-3.example"])
def test_other_machines_need_a_passphrase(host: str) -> None:
    assert not is_loopback(host)
    with pytest.raises(ConfigurationError, match="other machines"):
        access_for(Listening(host, 8437))
    with pytest.raises(ConfigurationError, match="at least 16"):
        access_for(Listening(host, 8437, passphrase="short"))
    access, made = access_for(Listening(host, 8437, passphrase=PASSPHRASE, names=["locks.example"]))
    assert made is None
    assert access.asks
    assert access.knows_host("locks.example:80")
    assert not access.knows_host("evil.example")


@pytest.mark.parametrize("host", ["2001:db8::7", "[2001:db8::7]", "2001:DB8:0:0::7"])
def test_an_address_is_known_as_a_browser_writes_it(host: str) -> None:
    access, _ = access_for(Listening(host, 8437, passphrase=PASSPHRASE))
    assert access.knows_host("[2001:db8::7]:8437")
    assert not access.knows_host("[2001:db8::8]:8437")


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "127.0.0.5"])
def test_on_this_machine_alone_looking_is_free_and_breaking_is_not(host: str) -> None:
    """Other users of this machine get there as well."""
    access, made = access_for(Listening(host, 8437))
    assert (access.asks, made) == (False, None)
    access, made = access_for(Listening(host, 8437, allow_break=True))
    assert access.asks
    assert made is not None
    assert access.accepts(made)
