"""Who can never go on: by hand, and against an oracle that tries every set of parties."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from itertools import chain, combinations

import pytest

from locknut.core import lookout
from locknut.core.values import Holder, LockInfo, Mode
from locknut.core.wait_circles import graph_of, without_end
from locknut.core.wait_graph import Blocker, Party, Wait, WaitGraph

X, S, P = Mode.EXCLUSIVE, Mode.SHARED, Mode.PERMIT


def one(party: str, mode: Mode = X, raw: int | None = None, owner: str | None = None) -> Holder:
    return Holder("h", 1, f"thread {party}", "", mode, raw, owner=owner, party=party, breaks=True)


def lock(
    name: str, holders: list[Holder], waiters: list[Holder], permits: int | None = None
) -> LockInfo:
    return LockInfo(name, tuple(holders), tuple(waiters), permits)


def graph(*infos: LockInfo) -> WaitGraph:
    return graph_of({"here": infos})


def circles(found: WaitGraph) -> list[list[str]]:
    return [[each.id for each in deadlock.members] for deadlock in found.deadlocks]


A_B = lock("a", [one("1", raw=10)], [one("2")]), lock("b", [one("2", raw=20)], [one("1")])


def test_two_that_wait_for_each_other() -> None:
    found = graph(*A_B)
    (deadlock,) = found.deadlocks
    assert circles(found) == [["1", "2"]]
    assert deadlock.victim is not None
    assert deadlock.victim.id == "2", "its hold is the younger one"
    assert [(each.waiter.id, each.lock, each.holder.id, each.fence) for each in deadlock.edges] == [
        ("2", "a", "1", 320),
        ("1", "b", "2", 640),
    ]
    assert deadlock.locks == ("a", "b")
    assert "thread 2 at h:1 waits for 'a', which thread 1 at h:1 has (fence 320)" in str(deadlock)


def test_the_order_in_which_things_are_listed_decides_nothing() -> None:
    other = graph(*reversed(A_B))
    assert other.deadlocks[0].victim == graph(*A_B).deadlocks[0].victim
    assert set(other.deadlocks[0].edges) == set(graph(*A_B).deadlocks[0].edges)


def test_a_chain_is_no_circle() -> None:
    chain_ = graph(lock("a", [one("1")], [one("2")]), lock("b", [one("2")], [one("3")]))
    assert len(chain_.edges) == 2
    assert not chain_.deadlocks
    assert not chain_.stuck


def test_who_waits_for_a_circle_is_stuck_but_not_part_of_it() -> None:
    found = graph(*A_B, lock("c", [one("1")], [one("3")]), lock("d", [one("3")], [one("4")]))
    assert circles(found) == [["1", "2"]]
    assert [each.id for each in found.stuck] == ["3", "4"]


def test_who_waits_for_itself() -> None:
    """Through another Locks, which is another client."""
    assert circles(graph(lock("a", [one("1")], [one("1")]))) == [["1"]]


def test_readers_do_not_wait_for_readers() -> None:
    found = graph(
        lock("a", [one("1", S), one("2", S)], [one("3", S)]), lock("b", [one("3")], [one("1")])
    )
    assert not found.deadlocks


def test_a_writer_waits_for_every_reader() -> None:
    found = graph(
        lock("a", [one("1", S), one("2", S)], [one("3")]), lock("b", [one("3")], [one("2")])
    )
    assert circles(found) == [["2", "3"]]


def test_a_reader_behind_a_writer_waits_for_it() -> None:
    found = graph(
        lock("a", [one("1", S)], [one("2"), one("3", S)]), lock("b", [one("3")], [one("1")])
    )
    assert circles(found) == [["1", "2", "3"]]
    (behind,) = [each for each in found.waits if each.party.id == "3"]
    assert [(each.party.id, each.ahead, each.fence) for each in behind.blockers] == [
        ("2", True, None)
    ]


def test_a_permit_waits_for_any_of_its_holders() -> None:
    """One of them goes on, so the waiter does."""
    slots = lock("s", [one("1", P), one("2", P)], [one("3", P)], permits=2)
    free = graph(slots, lock("b", [one("3")], [one("1")]))
    assert not free.deadlocks
    caught = graph(slots, lock("b", [one("3")], [one("1"), one("2")]))
    assert circles(caught) == [["1", "2", "3"]]


def test_a_lowered_limit_needs_more_than_one_to_leave() -> None:
    slots = lock("s", [one("1", P), one("2", P), one("4", P)], [one("3", P)], permits=2)
    (wait,) = graph(slots).waits
    assert wait.enough == 2
    assert circles(graph(slots, lock("b", [one("3")], [one("1"), one("2")]))) == [["1", "2", "3"]]
    assert not graph(slots, lock("b", [one("3")], [one("1")])).deadlocks


def test_co_owners_do_not_wait_for_each_other() -> None:
    found = graph(
        lock("a", [one("1", owner="o"), one("2", owner="o")], [one("3", owner="o")]),
        lock("b", [one("3")], [one("1")]),
    )
    assert not found.deadlocks


def test_a_lock_and_a_semaphore_of_one_name_have_nothing_in_common() -> None:
    found = graph(
        lock("a", [one("1")], [one("2", P)], permits=1), lock("b", [one("2")], [one("1")])
    )
    assert not found.deadlocks


def test_somebody_without_an_identity_goes_on() -> None:
    found = graph(lock("a", [one("")], [one("2")]), lock("b", [one("2")], [one("")]))
    assert not found.deadlocks


def test_a_wait_that_is_left_over_does_not_make_a_deadlock() -> None:
    found = graph(*A_B, lock("free", [one("9")], [one("1")]))
    assert not found.deadlocks


def test_only_who_asked_for_it_gives_way() -> None:
    quiet = [
        info._replace(
            waiters=tuple(each._replace(breaks=each.party == "1") for each in info.waiters)
        )
        for info in A_B
    ]
    (deadlock,) = graph(*quiet).deadlocks
    assert deadlock.victim is not None
    assert deadlock.victim.id == "1"
    nobody = [
        info._replace(waiters=tuple(each._replace(breaks=False) for each in info.waiters))
        for info in A_B
    ]
    assert graph(*nobody).deadlocks[0].victim is None


def test_a_writer_that_holds_nothing_does_not_look_so_it_is_not_the_one() -> None:
    def found(*more: LockInfo, only: str = "") -> str | None:
        infos = (
            lock("a", [one("1", S, 5)], [one("2"), one("3", S)]),
            lock("b", [one("3", raw=1)], [one("1")]),
            *more,
        )
        told = [
            info._replace(
                waiters=tuple(
                    each._replace(breaks=each.party == (only or each.party))
                    for each in info.waiters
                )
            )
            for info in infos
        ]
        (deadlock,) = graph(*told).deadlocks
        return None if deadlock.victim is None else deadlock.victim.id

    assert found() == "1"
    assert found(only="2") is None
    assert found(lock("c", [one("2")], []), only="2") == "2"


def test_through_two_engines_only_who_uses_both_gives_way() -> None:
    """The others do not see the circle, and would wait for the one that does not know."""
    found = graph_of(
        {
            "one": [
                lock("a", [one("1", raw=9)], [one("3")]),
                lock("b", [one("2", raw=1)], [one("1")]),
            ],
            "two": [lock("c", [one("3", raw=1)], [one("2")])],
        }
    )
    (deadlock,) = found.deadlocks
    assert len(deadlock.edges) == 3
    assert deadlock.victim is not None
    assert deadlock.victim.id == "3"


def test_it_can_be_written_as_json() -> None:
    facts = json.loads(json.dumps(graph(*A_B).as_dict()))
    assert facts["deadlocks"][0]["victim"]["id"] == "2"
    assert [each["lock"] for each in facts["deadlocks"][0]["edges"]] == ["a", "b"]
    assert facts["waits"][0]["blockers"][0]["fence"] == 320


def test_what_was_not_there_twice_is_no_deadlock() -> None:
    first = graph(*A_B)
    assert lookout.confirmed(first, first) == first
    moved = graph(A_B[0], lock("b", [one("2", raw=21)], [one("1")]))
    assert moved.deadlocks
    assert not lookout.confirmed(first, moved).deadlocks, "another hold: somebody went on"


class Name(str):
    """Counts how often somebody is looked up: in every set and dictionary that is."""

    looked_up = 0
    __slots__ = ()

    def __hash__(self) -> int:
        Name.looked_up += 1
        return super().__hash__()


def semaphore_of(size: int) -> list[LockInfo]:
    everybody = [one(Name(each), P, each) for each in range(2 * size)]
    return [lock("s", everybody[:size], everybody[size:], size)]


def readers_and_writers(size: int) -> list[LockInfo]:
    everybody = [one(Name(each), S if each < size else X, each) for each in range(2 * size)]
    return [lock("s", everybody[:size], everybody[size:])]


def chain_of(size: int) -> list[LockInfo]:
    return [lock(f"l{at}", [one(Name(at), raw=at)], [one(Name(at + 1))]) for at in range(2 * size)]


def with_a_deadlock(size: int) -> list[LockInfo]:
    return [*A_B, *semaphore_of(size), *chain_of(size)]


@pytest.mark.parametrize(
    "crowd",
    [semaphore_of, readers_and_writers, chain_of, with_a_deadlock],
    ids=lambda f: f.__name__,
)
def test_a_crowd_costs_no_more_than_it_is_large(crowd: Callable[[int], list[LockInfo]]) -> None:
    """A dashboard works it out with every listing, and so do waiters that may have to give way."""
    costs = []
    for size in (100, 400):
        infos = crowd(size)
        Name.looked_up = 0
        found = graph(*infos)
        costs.append(Name.looked_up)
        assert len(found.waits) >= size
        blockers = {id(each.blockers): len(each.blockers) for each in found.waits}
        assert sum(blockers.values()) <= 5 * size
    assert 0 < costs[1] <= 5 * costs[0]


# Random graphs.


def random_waits(chance: random.Random) -> list[Wait]:
    names = [str(each) for each in range(chance.randint(1, 7))]
    waits = []
    for name in chance.sample(names, chance.randint(0, len(names))):
        for _ in range(chance.choice((1, 1, 1, 2))):
            others = chance.sample([*names, ""], chance.randint(1, len(names)))
            blockers = tuple(Blocker(Party(each), X, chance.randint(1, 99)) for each in others)
            enough = chance.choice((len(blockers), chance.randint(1, len(blockers))))
            waits.append(Wait(Party(name), f"l{name}", X, blockers, enough, "", breaks=True))
    return waits


def oracle(waits: list[Wait]) -> set[str]:
    """The largest set of waiters none of whom is helped by all the others leaving."""
    names = {each.party.id for each in waits}
    largest: set[str] = set()
    for picked in chain.from_iterable(
        combinations(sorted(names), n) for n in range(len(names) + 1)
    ):
        inside = set(picked)
        held_up = all(
            sum(one.party.id not in inside for one in wait.blockers) < wait.enough
            for wait in waits
            if wait.party.id in inside
        )
        if held_up:
            largest |= inside
    return largest


@pytest.mark.parametrize("seed", range(20))
def test_the_same_parties_as_an_oracle_finds(seed: int) -> None:
    chance = random.Random(seed)
    doomed = 0
    for _ in range(100):
        waits = random_waits(chance)
        found = without_end(waits)
        assert found == oracle(waits)
        doomed += bool(found)
    assert 5 < doomed < 95, "both kinds were there"


def random_infos(chance: random.Random) -> list[LockInfo]:
    """Locks as an engine would list them: everybody waits for one thing at most."""
    parties = [str(each) for each in range(1, 7)]
    idle = chance.sample(parties, len(parties))
    infos = []
    for name in "abcd":
        mode = chance.choice((X, X, S, P))
        count = 1 if mode is X else chance.randint(1, 3)
        holders = [
            one(each, mode, chance.randint(1, 10**6)) for each in chance.sample(parties, count)
        ]
        line = [
            one(idle.pop(), mode if mode is P else chance.choice((X, S)))
            for _ in range(chance.randint(0, 2))
            if idle
        ]
        infos.append(lock(name, holders, line, count if mode is P else None))
    return infos


@pytest.mark.parametrize("seed", range(20))
def test_one_victim_for_each_circle_and_in_the_end_all_go_on(seed: int) -> None:
    chance = random.Random(seed)
    seen = 0
    for _ in range(100):
        infos = random_infos(chance)
        rounds = 0
        while (found := graph(*infos)).deadlocks:
            seen, rounds = seen + 1, rounds + 1
            assert rounds <= 6
            doomed = without_end(found.waits)
            members = [each for deadlock in found.deadlocks for each in deadlock.members]
            assert len(members) == len(set(members)), "nobody is in two of them"
            assert {each.id for each in members} | {each.id for each in found.stuck} == doomed
            for deadlock in found.deadlocks:
                assert deadlock.victim in deadlock.members
                ends = [(edge.waiter, edge.holder) for edge in deadlock.edges]
                assert [holder for _, holder in ends] == [
                    waiter for waiter, _ in [*ends[1:], ends[0]]
                ]
            shuffled = chance.sample(infos, len(infos))
            assert {each.victim for each in graph(*shuffled).deadlocks} == {
                each.victim for each in found.deadlocks
            }
            gone = {each.victim.id for each in found.deadlocks if each.victim is not None}
            infos = [without(info, gone) for info in infos]
        assert not without_end(found.waits)
    assert seen > 10


def without(info: LockInfo, gone: set[str]) -> LockInfo:
    """After these have given way, and released what they held."""
    return info._replace(
        holders=tuple(each for each in info.holders if each.party not in gone),
        waiters=tuple(each for each in info.waiters if each.party not in gone),
    )
