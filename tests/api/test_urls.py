"""URLs: how they are taken apart, lists of hosts above all, the same by every interpreter."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from locknut.errors import ConfigurationError
from locknut.urls import Url, open_engine, parse
from tests.contracts.sources import ROOT

LISTS = (
    "redis+cluster://u:p@h1,h2:7,[::1]:8",
    "redis+sentinel://u:p@[::1],h2:7,[::2]:8/jobs",
    "redlock://h1,[::1]:7,h3",
    "zookeeper://u:p@h1,h2:7,[::1]:8/jobs",
)
SEVERAL = ("redis+cluster", "redis+sentinel", "redlock", "zookeeper")
DEBIAN = Path("/usr/bin/python3")
"""Refuses such lists in its own `urlsplit`, as newer versions of CPython do."""


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("file:", ("file", "", "", {})),
        ("FILE:///var/a%20b", ("file", "", "/var/a b", {})),
        ("redis://h?a=1&b=%26", ("redis", "h", "", {"a": "1", "b": "&"})),
        ("redis://u:p%40@h:1/2?a=", ("redis", "u:p%40@h:1", "/2", {"a": ""})),
        ("x+y://h1,[::1]:2", ("x+y", "h1,[::1]:2", "", {})),
        (" memory:\n", ("memory", "", "", {})),
    ],
)
def test_the_parts(text: str, parts: tuple[str, str, str, dict[str, str]]) -> None:
    url = parse(text)
    assert (url.scheme, url.netloc, url.path, url.options) == parts


@pytest.mark.parametrize(
    ("netloc", "servers"),
    [
        ("", ("", [""])),
        ("h", ("", ["h"])),
        ("u:p@h1,[::1]:8", ("u:p", ["h1", "[::1]:8"])),
        ("u:a,b@h1,h2", ("u:a,b", ["h1", "h2"])),
    ],
)
def test_servers(netloc: str, servers: tuple[str, list[str]]) -> None:
    assert Url("x", netloc).servers() == servers


@pytest.mark.parametrize("scheme", SEVERAL)
@pytest.mark.parametrize(
    ("hosts", "named"),
    [
        ("h1:7000,,h2:7000", "comma without a host"),
        ("h1,h2,", "comma without a host"),
        (",", "comma without a host"),
        ("u:s3cret@h1:7000,u:s3cret@h2:7001,h3", "one login, for all hosts"),
    ],
)
def test_what_is_refused(scheme: str, hosts: str, named: str) -> None:
    """A comma too many would send the password to whatever listens on this machine."""
    with pytest.raises(ConfigurationError, match=named) as caught:
        open_engine(
            f"{scheme}://{hosts}/jobs" if scheme == "redis+sentinel" else f"{scheme}://{hosts}"
        )
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("scheme", ["redis", "mysql", "memcached", "etcd", *SEVERAL])
@pytest.mark.parametrize(
    "host", ["a..b", ".a", "a" * 64, "\N{LATIN SMALL LETTER U WITH DIAERESIS}..b", " a", "a b"]
)
def test_a_name_that_no_host_can_have(scheme: str, host: str) -> None:
    """Looking it up raised a UnicodeError, in the middle of an acquire or of a thread."""
    hosts = f"h1,{host}:7,h3" if scheme in SEVERAL else host
    path = "/jobs" if scheme in {"redis+sentinel", "mysql"} else ""
    with pytest.raises(ConfigurationError, match="not the name of a host"):
        open_engine(f"{scheme}://{hosts}{path}")


def interpreters() -> list[str]:
    return [sys.executable, *([str(DEBIAN)] if DEBIAN.exists() else [])]


@pytest.mark.parametrize("python", interpreters())
def test_lists_of_hosts_mean_the_same_to_every_interpreter(python: str) -> None:
    """Only what needs no driver: another interpreter has none."""
    asked = f"from locknut.urls import parse; print([parse(each).servers() for each in {LISTS!r}])"
    told = subprocess.run(
        [python, "-c", asked],
        env={"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.strip() == repr([parse(each).servers() for each in LISTS])


@pytest.mark.parametrize("url", LISTS)
def test_they_lead_to_engines(url: str) -> None:
    assert open_engine(url)[0] is not None
