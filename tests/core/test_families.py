"""Which names are of one family, and that there are never many families."""

from __future__ import annotations

import random
import uuid

import pytest

from locknut.core.families import ANY, MOST_CHARACTERS, Families, family


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("reindex", "reindex"),
        ("invoice:42", "invoice:*"),
        ("user:ann", "user:*"),
        ("user:{user_id}", "user:*"),
        ("worker-{n}", "worker-*"),
        ("worker-12", "worker-*"),
        ("2026-11-17", "*-*-*"),
        ("shop:7:cart:12", "shop:*:cart:*"),
        ("shop:berlin:cart:12", "shop:berlin:cart:*"),
        ("jobs/nightly/report", "jobs/nightly/*"),
        ("a:b/c", "a:b/*"),
        ("a:b:c:d:e:f", "a:b:c:*"),
        ("/var/lock", "/var/*"),
        ("db1:users", "db*:*"),
        ("5f0c9a7e-6f3a-4a44-9d6b-7f1a0c2b3d4e", "*"),
        ("deadbeefdeadbeef", "*"),
        ("deadbeef", "deadbeef"),
        ("shop:" + 24 * "x" + ":cart", "shop:*:*"),
        (":", ":*"),
        ("", ""),
        ("\u0663:x", "*:*"),
    ],
)
def test_the_rule(name: str, expected: str) -> None:
    assert family(name) == expected


def test_ids_of_all_kinds_make_one_family() -> None:
    chance = random.Random(1)
    ids = [str(uuid.UUID(int=chance.getrandbits(128))) for _ in range(300)]
    ids += [f"{chance.getrandbits(96):024x}" for _ in range(300)]
    ids += [str(chance.randrange(10**9)) for _ in range(300)]
    assert {family(each) for each in ids} == {ANY}
    assert {family(f"order:{each}") for each in ids} == {"order:*"}
    assert {family(f"order:{each}:lines") for each in ids if any(map(str.isdigit, each))} == {
        "order:*:*"
    }


def test_a_family_is_its_own_family() -> None:
    for name in ("reindex", "invoice:42", "a:b:c:d:e", "worker-12", "shop:7:cart:12"):
        assert family(family(name)) == family(name)


def test_a_family_is_short_whatever_the_name() -> None:
    assert len(family(1000 * "x")) == MOST_CHARACTERS
    assert len(family(1000 * "x:")) <= MOST_CHARACTERS
    assert len(family(1000 * "x1")) <= MOST_CHARACTERS


def test_there_are_never_more_families_than_the_bound() -> None:
    families = Families(most=3)
    found = [families(name) for name in ("a:1", "b:1", "c:1", "d:1", "a:2", "e")]
    assert found == ["a:*", "b:*", "c:*", ANY, "a:*", ANY]
