"""The identity in front of a name: written, read, and never taken for one where there is none."""

from __future__ import annotations

import pytest

from locknut.core import callers
from locknut.core.callers import Caller
from locknut.core.values import Detail, Holder, LockInfo
from locknut.runtimes.threads import PartyIds

ID = "k3x9f2m7aq.12"


def test_what_is_signed_is_read_again() -> None:
    text = callers.signed_by(ID, "thread MainThread")
    assert text == f"@{ID} thread MainThread"
    assert callers.read(text) == (ID, False, "thread MainThread")
    assert callers.read(callers.breaking(text)) == (ID, True, "thread MainThread")


@pytest.mark.parametrize(
    "text",
    [
        *("", "@", "!", "thread MainThread", "task Task-1", "@home thread", "@short.1 thread x"),
        *("@k3x9f2m7aq thread x", "@k3x9f2m7aq. thread x", "@k3x9f2m7aq.x thread x"),
        "@k3x9f2m7aq.\u0663 thread x",
    ],
)
def test_other_texts_have_no_identity(text: str) -> None:
    assert callers.read(text) == ("", False, text)


def test_a_name_that_was_cut_keeps_its_identity() -> None:
    """The file engine has 40 bytes for it."""
    text = callers.signed_by(ID, "thread " + 60 * "x")[:40]
    assert callers.read(text).id == ID


def test_without_an_identity_the_name_is_all_there_is() -> None:
    assert callers.signed_by("", "thread x") == "thread x"
    assert callers.breaking("thread x") == "thread x"


def test_people_see_names_without_identities() -> None:
    holder = Holder(host="web", who=f"!{ID} thread x")
    seen = Holder(host="web", who="thread x", party=ID, breaks=True)
    found = callers.shown(LockInfo("a", (holder,), (holder,), None, (Detail("n1", (holder,)),)))
    assert found == LockInfo("a", (seen,), (seen,), None, (Detail("n1", (seen,)),))
    assert str(found.holders[0]) == "thread x at web"


def test_processes_have_names_of_their_own_and_so_have_forked_children() -> None:
    ids = PartyIds()
    first, second = ids(), ids()
    assert first != second
    assert first.partition(".")[0] == second.partition(".")[0]
    ids.forked()
    assert ids().partition(".")[0] != first.partition(".")[0]
    assert callers.read(callers.signed_by(first, "x")).id == first


class Lease:
    """As much of one as a Caller looks at."""

    def __init__(self, ended: object = None):
        self._ended = ended


def two(ids: PartyIds) -> tuple[Caller, Caller]:
    return Caller("one", new_party=ids), Caller("two", new_party=ids)


def test_who_is_handed_over_to_has_the_identity_then_and_nobody_else() -> None:
    one, heir = two(PartyIds())
    former = one.party
    one.pass_identity(heir)
    assert heir.party == former
    assert one.party != former
    assert heir.sign() == f"@{former} two"


@pytest.mark.parametrize("which", [0, 1])
def test_an_identity_under_which_more_is_held_is_used_up(which: int) -> None:
    """Else a hold of one would seem to be the other's."""
    pair = two(PartyIds())
    one, heir = pair
    pair[which]["1::x"] = Lease()
    before = one.party, heir.party
    one.pass_identity(heir)
    assert heir.party == before[1]
    assert one.party not in before


def test_what_is_over_or_is_not_a_lease_does_not_count() -> None:
    one, heir = two(PartyIds())
    former = one.party
    one["1::x"] = Lease(ended="released")
    one["locknut.all"] = []
    heir[object()] = (None, None)
    one.pass_identity(heir)
    assert heir.party == former
