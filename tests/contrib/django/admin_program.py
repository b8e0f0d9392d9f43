"""The page of the admin in a site of Django, asked by Django's own client; a program of its own."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlencode

import django
from django.conf import settings
from django.core.management import call_command
from django.db import connection
from django.test import Client, override_settings

from tests.contrib.django.scenarios import run

settings.configure(
    SECRET_KEY="x" * 50,
    ALLOWED_HOSTS=["testserver"],
    ROOT_URLCONF=__name__,
    USE_TZ=True,
    STATIC_URL="static/",
    INSTALLED_APPS=[
        "locknut.contrib.django",
        *(f"django.contrib.{each}" for each in ("admin", "auth", "contenttypes", "sessions")),
        "django.contrib.messages",
    ],
    MIDDLEWARE=[
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.middleware.csrf.CsrfViewMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
        "django.contrib.messages.middleware.MessageMiddleware",
    ],
    TEMPLATES=[
        {
            "BACKEND": "django.template.backends.django.DjangoTemplates",
            "APP_DIRS": True,
            "OPTIONS": {
                "context_processors": [
                    "django.template.context_processors.request",
                    "django.contrib.auth.context_processors.auth",
                    "django.contrib.messages.context_processors.messages",
                ]
            },
        }
    ],
    PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "data.db"}},
    LOCKNUT={"URL": "memory:", "DASHBOARD": "/ops/locks/"},
)
django.setup()

from django.contrib import admin  # noqa: E402
from django.contrib.auth.models import Permission, User  # noqa: E402
from django.urls import path  # noqa: E402

from locknut.contrib.django import locks  # noqa: E402

urlpatterns = [path("admin/", admin.site.urls)]
PAGE = "/admin/locknut/lock/"
ODD = "order:7 <b>&\"'"


def client(name: str) -> Client:
    made = Client(enforce_csrf_checks=True)
    made.force_login(User.objects.get(username=name))
    return made


def users() -> None:
    for name, permissions in (
        ("nobody", []),
        ("looker", ["view_lock"]),
        ("breaker", ["view_lock", "break_lock"]),
    ):
        user = User.objects.create_user(name, is_staff=True)
        user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    User.objects.create_user("customer")


def text(answer: Any) -> str:
    return str(answer.content.decode())


def broken(by: Client, fence: int, **more: str) -> Any:
    """As the form would send it."""
    asked = by.get(f"{PAGE}break/?{urlencode({'name': ODD, 'fence': fence})}")
    stamp = re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', text(asked))[0]
    form = {"name": ODD, "fence": str(fence), "reason": "it hangs", "csrfmiddlewaretoken": stamp}
    return by.post(f"{PAGE}break/", form | more, follow=True)


def scenario_the_page_lists_locks_and_shows_no_markup_of_theirs() -> None:
    with locks().lock(ODD) as lease:
        page = text(client("looker").get(PAGE))
    assert "order:7 &lt;b&gt;" in page
    assert str(lease.fence) in page
    assert 'href="/ops/locks/"' in page
    assert "Break</a>" not in page
    assert "No lock is held" in text(client("looker").get(PAGE))


def scenario_a_pattern_lists_a_part() -> None:
    with locks().lock("order:1"), locks().lock("user:1"):
        page = text(client("looker").get(f"{PAGE}?q=user:*"))
    assert "user:1" in page
    assert "order:1" not in page


def scenario_who_may_not_look_does_not() -> None:
    assert client("nobody").get(PAGE).status_code == 403
    assert "/login/" in client("customer").get(PAGE)["Location"]
    assert "/login/" in Client().get(PAGE)["Location"]
    assert "locknut/lock" not in text(client("nobody").get("/admin/"))
    assert "locknut/lock" in text(client("looker").get("/admin/"))


def scenario_who_may_not_break_does_not() -> None:
    with locks().lock(ODD) as lease:
        looker = client("looker")
        form = {"name": ODD, "fence": lease.fence, "reason": "x"}
        assert looker.get(f"{PAGE}break/", form).status_code == 403
        unchecked = Client()
        unchecked.force_login(User.objects.get(username="looker"))
        assert unchecked.post(f"{PAGE}break/", form).status_code == 403
        assert lease.held


def scenario_a_hold_is_broken_by_its_fence_and_the_holder_reads_why() -> None:
    lease = locks().lock(ODD).acquire()
    assert lease is not None
    breaker = client("breaker")
    assert "Break</a>" in text(breaker.get(PAGE))
    assert "is broken" in text(broken(breaker, lease.fence))
    assert lease.lost.wait(60)
    assert "it hangs (breaker, in the admin)" in lease.reason


def scenario_a_lock_that_changed_hands_is_left_alone() -> None:
    with locks().lock(ODD) as before:
        pass
    with locks().lock(ODD) as lease:
        assert "Not broken: fence" in text(broken(client("breaker"), before.fence))
        assert lease.held
    assert "Nothing was broken" in text(broken(client("breaker"), before.fence))


def scenario_nothing_is_broken_by_a_link_nor_without_the_stamp_nor_a_reason() -> None:
    with locks().lock(ODD) as lease:
        breaker = client("breaker")
        form = {"name": ODD, "fence": lease.fence, "reason": "x"}
        assert breaker.get(f"{PAGE}break/", form).status_code == 200
        assert breaker.post(f"{PAGE}break/", form).status_code == 403
        assert "Why (the holder" in text(broken(breaker, lease.fence, reason=" "))
        assert "Choose a lock" in text(breaker.get(f"{PAGE}break/?name=x&fence=all", follow=True))
        assert lease.held


def scenario_there_is_nothing_else() -> None:
    User.objects.create_superuser("root")
    for below in ("add/", "1/change/", "1/delete/", "1/history/"):
        assert client("root").get(PAGE + below).status_code == 404, below
    assert client("root").get(PAGE).status_code == 200


def scenario_there_is_no_table() -> None:
    assert not [name for name in connection.introspection.table_names() if "locknut" in name]


def scenario_an_engine_that_is_away_is_told_on_the_page() -> None:
    with override_settings(LOCKNUT={"URL": "redis://user:s3cret@127.0.0.1:1"}):
        answer = client("breaker").get(PAGE)
        assert answer.status_code == 200
        assert "127.0.0.1:1" in text(answer)
        assert "errornote" in text(answer)
        assert "s3cret" not in text(answer)


if __name__ == "__main__":
    call_command("migrate", verbosity=0, with_lock=True)
    users()
    run(globals())
