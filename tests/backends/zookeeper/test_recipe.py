"""Who holds, by names alone: mutex, read-write lock and semaphore, ours and others' nodes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from locknut.backends.zookeeper import node_names, recipe
from locknut.backends.zookeeper.node_names import Node
from locknut.backends.zookeeper.recipe import MINE, Verdict
from locknut.core.values import Claim, Mode

ID = "0123456789abcdef0123456789abcdef"
UUID = "_c_01234567-89ab-cdef-0123-456789abcdef-"


def line(*names: str) -> list[Node]:
    return node_names.nodes(list(names))


def verdicts(*names: str) -> list[Verdict]:
    everybody = line(*names)
    return [recipe.verdict(everybody, each) for each in everybody]


def turns(*names: str, permits: int) -> list[Verdict]:
    everybody = line(*names)
    return [recipe.turn(everybody, each, permits) for each in everybody]


def behind(name: str) -> Verdict:
    return Verdict(False, name)


def test_the_lowest_holds_and_everybody_else_watches_the_one_before() -> None:
    names = ["c-lock-0000000007", "a-lock-0000000009", "b-lock-0000000008"]
    assert verdicts(*names) == [MINE, behind(names[2]), behind(names[0])]


def test_a_mutex_of_curator_kazoo_and_locknut_is_one_line() -> None:
    java = "_c_aaaaaaaa-89ab-cdef-0123-456789abcdef-lock-0000000001"
    kazoo = "b" * 32 + "__lock__0000000002"
    ours = f"{UUID}lock-0000000003"
    assert verdicts(ours, kazoo, java) == [behind(kazoo), behind(java), MINE]


def test_readers_share_up_to_the_next_writer_and_watch_the_nearest() -> None:
    names = [
        "__READ__0000000001",
        "__READ__0000000002",
        "__WRIT__0000000003",
        "__READ__0000000004",
        "__WRIT__0000000005",
        "__READ__0000000006",
    ]
    assert verdicts(*names) == [
        MINE,
        MINE,
        behind(names[1]),
        behind(names[2]),
        behind(names[3]),
        behind(names[4]),
    ]


def test_kazoos_readers_and_a_plain_mutex_count_too() -> None:
    names = ["x__rlock__0000000001", "y__lock__0000000002", "z__rlock__0000000003"]
    assert verdicts(*names) == [MINE, behind(names[0]), behind(names[1])]
    assert verdicts("lock-0000000001", "__READ__0000000002")[1] == behind("lock-0000000001")


def test_permits_are_counted_and_only_the_first_waiter_watches_them_all() -> None:
    leases = [f"lease-000000000{number}" for number in range(2)]
    queue = [f"lock-000000000{number}" for number in range(5, 8)]
    waiting = [behind(""), behind(queue[0]), behind(queue[1])]
    assert turns(*leases, *queue, permits=2) == [MINE, MINE, *waiting]
    assert turns(*leases, *queue, permits=3) == [MINE, MINE, recipe.ENTERS, *waiting[1:]]


def test_a_waiter_of_curators_with_a_lease_already_leaves_no_room() -> None:
    """It stands at the head, and whoever is behind it watches it there."""
    names = ["lease-0000000000", "lease-0000000001", "lock-0000000000", "lock-0000000001"]
    assert turns(*names, permits=3)[3] == behind(names[2])
    assert not recipe.room(line(*names), 2)


@given(st.lists(st.tuples(st.sampled_from(["lock-", "__READ__"]), st.integers(0, 2)), max_size=8))
def test_the_walk_along_the_whole_line_says_what_each_verdict_says(
    crowd: list[tuple[str, int]],
) -> None:
    """An owner's claims may stand abreast."""
    marks = ["", node_names.owner_mark("one"), node_names.owner_mark("two")]
    numbers: list[int] = []
    names = []
    for at, (kind, owner) in enumerate(crowd):
        abreast = owner and at and crowd[at - 1] == (kind, owner)
        numbers.append(numbers[-1] if abreast else at)
        mark = marks[owner] if kind == "lock-" else ""
        names.append(node_names.prefix(f"{at:032x}", mark, kind) + f"{numbers[-1]:010d}")
    ordered = recipe.in_order(line(*names))
    each_for_itself = [recipe.verdict(ordered, each).mine for each in ordered]
    assert list(recipe.holding(ordered)) == each_for_itself


def test_a_fellow_of_the_same_owner_holds_with_it() -> None:
    mark = node_names.owner_mark("order-7")
    first, beside = f"a{mark}lock-0000000001", f"{UUID}{mark}lock-0000000001"
    late, other = f"{UUID}{mark}lock-0000000002", "b-lock-0000000003"
    assert verdicts(f"{UUID}{mark}lock-0000000001", beside, other)[:2] == [MINE, MINE]
    assert recipe.verdict(line(beside, late, other), line(late)[0]) == MINE
    assert recipe.verdict(line(beside, late, other), line(other)[0]) == behind(late)
    assert recipe.fellow(line(late, beside, other), mark) == line(beside)[0]
    assert recipe.fellow(line(other), mark) is None
    assert line(first)[0].mode is Mode.EXCLUSIVE


def test_a_reader_in_the_place_of_a_writer_stays_in_front() -> None:
    """As a downgrade leaves it, and Curator's reader inside a writer (S: no writer slips in)."""
    names = ["__READ__0000000001", "__WRIT__0000000002", "__READ__0000000003"]
    assert verdicts(*names) == [MINE, behind(names[0]), behind(names[1])]


def test_numbers_wrap_around() -> None:
    names = ["lock-2147483647", "lock--2147483648", "lock--2147483647"]
    assert verdicts(*names) == [MINE, behind(names[0]), behind(names[1])]
    assert verdicts("lock--000000001", "lock-0000000000") == [MINE, behind("lock--000000001")]
    assert [each.sequence for each in recipe.in_order(line(*reversed(names)))] == [
        2147483647,
        -2147483648,
        -2147483647,
    ]


def test_what_is_no_contender_is_nobody() -> None:
    assert line("leases", "locks", "config", "lock-12", "lock-0000000001x") == []


@pytest.mark.parametrize("layout", ["curator", "kazoo"])
@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("owner", [None, "order-7"])
@pytest.mark.parametrize("detached", [False, True])
def test_our_own_names_say_what_they_are(
    layout: str, mode: Mode, owner: str | None, detached: bool
) -> None:
    kind = node_names.kind_of(Claim("t:x", ID, mode=mode), layout)
    name = (
        node_names.prefix(ID, node_names.owner_mark(owner), kind, detached=detached) + "0000000012"
    )
    found = node_names.node(name)
    assert found is not None
    assert (found.id, found.mode, found.sequence) == (ID, mode, 12)
    assert (found.owner, found.detached, found.number) == (
        node_names.owner_mark(owner), detached, "0000000012",
    )  # fmt: skip


def test_the_writer_of_a_read_write_lock_has_curators_name_for_it() -> None:
    writer = Claim("t:x", ID, writer=True)
    assert node_names.kind_of(writer, "curator") == "__WRIT__"
    assert node_names.kind_of(writer._replace(writer=False), "curator") == "lock-"
    assert node_names.prefix(ID, "", "lock-") == f"{UUID}lock-"


@given(st.text(min_size=1), st.text(min_size=1))
@pytest.mark.slow
def test_different_names_have_different_nodes_that_the_server_accepts(one: str, two: str) -> None:
    first, second = (node_names.folder("/top", f"space:{name}") for name in (one, two))
    assert (first == second) == (one == two)
    name = first.removeprefix("/top/space/")
    assert name.isascii()
    assert name.isprintable()
    assert "/" not in name
    assert name not in {".", "..", ""}
    assert node_names.key_of("space", name) == f"space:{one}"
