"""What a Redis URL says is what redis-py reads in it: compared with redis-py itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis import connection

from locknut.drivers.redis.url_parts import UrlParts, take_apart

_parse_url: Callable[[str], dict[str, Any]] = connection.parse_url
words = st.text("aZ09.-_~%41:@[]\u00fc/ ", max_size=8)
numbers = st.text("0123456789 +-_x", max_size=6)


def as_redis_py_reads(url: str) -> UrlParts:
    known = _parse_url(url)
    known.pop("connection_class", None)
    return UrlParts(**known)


def told(read: Callable[[str], UrlParts], url: str) -> UrlParts | str:
    try:
        return read(url)
    except ValueError as error:
        return str(error)


@pytest.mark.parametrize(
    "url",
    [
        "redis://",
        "redis://:secret@h",
        "redis://ann@h",
        "redis://ann:@h:0/3",
        "redis://H:1/03",
        "redis://[::1]:7//2/",
        "redis://[::1",
        "redis://h:port",
        "redis://h:70000",
        "redis://h/three",
        "redis://h/3?db=4",
        "redis://h/3?db=",
        "redis://h?db=-1",
        "redis://h?db=four",
        "rediss://a%40x:s%2F3%3Acret@h",
        "unix://",
        "unix:///run/a%20b.sock?db=2",
        "unix://ann:secret@/run/x",
        "unix://h:port/run/x",
    ],
)
def test_known_forms(url: str) -> None:
    assert told(take_apart, url) == told(as_redis_py_reads, url)


@given(
    scheme=st.sampled_from(["redis", "rediss", "unix"]),
    netloc=words,
    path=words | numbers.map("/{}".format),
    db=st.none() | numbers,
)
def test_any_form(scheme: str, netloc: str, path: str, db: str | None) -> None:
    query = "" if db is None else f"?db={quote(db)}"
    url = f"{scheme}://{netloc}{quote(path)}{query}"
    assert told(take_apart, url) == told(as_redis_py_reads, url)
