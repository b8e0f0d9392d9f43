"""The permissions that the documentation gives, as a test server wants them."""

from __future__ import annotations

import re

from tests.contracts.sources import ROOT

PAGE = ROOT / "docs" / "engines" / "redis.md"
_LINE = re.compile(r"^ACL SETUSER locks on >secret (.+)$", re.MULTILINE)


def documented(namespace: str = "locknut") -> str:
    """The rules for a user of this namespace (or of all that begin so, with a `*`)."""
    (found,) = _LINE.findall(PAGE.read_text())
    rules: str = found.replace("~locknut:*", f"~{namespace}:*")
    return rules


def documented_for_a_cluster(namespace: str = "locknut") -> str:
    (more,) = re.findall(r"^\* On a cluster besides: `([^`]+)`", PAGE.read_text(), re.MULTILINE)
    return f"{documented(namespace)} &{namespace}:* {more}"


def commands(rules: str) -> list[str]:
    return [word for word in rules.split() if word.startswith("+")]
