"""Who holds, and whom a waiter watches, by the order of a line."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

import pytest

from locknut.backends.etcd import key_names, recipe
from locknut.backends.etcd.recipe import Contender
from locknut.core.values import Claim, Mode
from locknut.drivers.etcd.requests import KeyValue

KINDS = {"w": Mode.EXCLUSIVE, "r": Mode.SHARED, "p": Mode.PERMIT}


def line(kinds: str, permits: int = 2) -> list[Contender]:
    return [
        Contender(b"%d" % n, f"{n}", KINDS[kind], permits, n, n, 1, False, {})
        for n, kind in enumerate(kinds, 1)
    ]


@pytest.mark.parametrize(
    ("kinds", "holds"),
    [
        ("www", "+.."),
        ("rrwr", "++.."),
        ("wrr", "+.."),
        ("pppp", "++.."),
        ("wpp", "+.."),
        ("", ""),
    ],
)
def test_who_holds(kinds: str, holds: str) -> None:
    assert "".join("+" if each else "." for each in recipe.holding(line(kinds))) == holds


def test_one_walk_says_the_same_as_one_look_each() -> None:
    for size in range(6):
        for kinds in itertools.product("wr", repeat=size):
            _compare(line("".join(kinds)))
        _compare(line("p" * size))
        _compare(line("w" + "p" * size))


def _compare(whole: Sequence[Contender]) -> None:
    alone = [
        recipe.verdict(whole[:place], own.mode, own.permits).mine for place, own in enumerate(whole)
    ]
    assert list(recipe.holding(whole)) == alone


def test_a_waiter_need_not_look_before_one_goes_that_it_watches() -> None:
    """Whoever goes: as long as all of those are there, it does not hold. So no ring is missed."""
    chance = random.Random(5)
    for kinds, permits in (("wwwww", 1), ("rwrrwr", 1), ("pppppp", 1), ("pppppp", 3)):
        whole = line(kinds, permits)
        for place, own in enumerate(whole):
            ahead = whole[:place]
            found = recipe.verdict(ahead, own.mode, permits)
            for _ in range(50 * (not found.mine)):
                left = [each for each in ahead if each.key in found.behind or chance.random() < 0.5]
                assert not recipe.verdict(left, own.mode, permits).mine


def test_a_waiter_watches_only_the_one_before_it() -> None:
    """When a lock is released one is woken, and not all of them."""
    for place in range(1, 6):
        assert recipe.verdict(line("wwwwww")[:place], Mode.EXCLUSIVE, 1).behind == (b"%d" % place,)
    assert recipe.verdict(line("rwrr"), Mode.SHARED, 1).behind == (b"2",)


def test_the_key_of_another_client_is_an_exclusive_hold() -> None:
    found = recipe.contender(KeyValue(b"locknut/x/694d7f", b"", 5, 5, 1, 0x694D7F))
    assert (found.id, found.mode, found.created) == ("", Mode.EXCLUSIVE, 5)
    odd = recipe.contender(KeyValue(b"locknut/x/1", b'{"mode":"shared","id":"a"}', 5, 5, 1, 1))
    assert (odd.id, odd.mode) == ("", Mode.EXCLUSIVE)
    deep = recipe.contender(KeyValue(b"locknut/x/2", b"[" * 100_000, 5, 5, 1, 1))
    assert (deep.id, deep.mode) == ("", Mode.EXCLUSIVE)


@pytest.mark.parametrize("name", ["x", "a/b", "a%2Fb", "%session", "%", "ö/ü", "a b\n"])
@pytest.mark.parametrize("mode", [Mode.EXCLUSIVE, Mode.PERMIT])
def test_every_name_has_a_place_of_its_own(name: str, mode: Mode) -> None:
    claim = Claim(f"ns:{name}", "0" * 32)
    for root in (b"", b"a/b/"):
        prefix = key_names.line(root, claim.key, mode)
        assert prefix.count(b"/") == (2 if mode is Mode.EXCLUSIVE else 3) + root.count(b"/")
        key = key_names.own(prefix, 255, claim.id)
        assert key_names.place(root, key) == (claim.key, mode)
        assert key_names.claim_id_in(key) == claim.id


def test_what_stands_beside_the_lines_is_in_none_of_them() -> None:
    claim = Claim("ns:x", "0" * 32)
    for key in (
        key_names.session(b"", claim, 255),
        key_names.gone(b"", claim),
        key_names.note(b"", claim.key, claim.id),
        b"elsewhere",
        b"ns/x/y/z",
    ):
        assert key_names.place(b"", key) is None
