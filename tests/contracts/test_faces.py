"""The two faces are one: same names, same parameters, same first sentence; async where it waits."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import locknut
import locknut.aio
from locknut.runtimes.cpython import is_coroutine_function
from tests.contracts.surface import members, parameters

TWINS = {"__enter__": "__aenter__", "__exit__": "__aexit__"}
"""What `with` calls, and what `async with` calls."""

WAITS = {
    "Barrier": {"abort", "wait", "waiting"},
    "Election": {"leader", "run"},
    "Latch": {"count_down", "left", "reset", "wait"},
    "Lease": {"detach", "info", "release", "renew"},
    "Leases": {"release"},
    "Lock": {"acquire", "info", "locked", "release"},
    "Locks": {
        "attach",
        "close",
        "doctor",
        "force_release",
        "history",
        "info",
        "list",
        "ping",
        "waits_for",
    },
    "Once": {"acquire", "release"},
    "RWLock": {"info"},
    "Semaphore": {"acquire", "info", "locked", "release"},
    "LockGroup": {"acquire"},
    "Term": set(),
}
"""Methods that talk to the engine or wait: coroutines under asyncio, and nothing else is."""

SHARED = {"locknut.errors", "locknut.core.values", "locknut.core.history_entries"}
"""Errors and values have no colour: both faces give the same ones, and `locknut` lists them."""

OWN_SENTENCE = {"default"}
"""One for the process, one for each loop: the faces say different things."""

COLOURED = sorted(n for n in locknut.__all__ if getattr(locknut, n).__module__ not in SHARED)
CLASSES = [name for name in COLOURED if inspect.isclass(getattr(locknut, name))]
FUNCTIONS = [name for name in COLOURED if inspect.isfunction(getattr(locknut, name))]


def test_both_faces_have_the_same_names() -> None:
    assert sorted(locknut.aio.__all__) == COLOURED
    assert sorted(WAITS) == CLASSES
    assert sorted(CLASSES + FUNCTIONS) == COLOURED


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_has_the_same_members_in_both_faces(name: str) -> None:
    blocking, loop = members(getattr(locknut, name)), members(getattr(locknut.aio, name))
    assert {TWINS.get(member, member) for member in blocking} == set(loop)


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_of_one_face_is_none_of_the_other(name: str) -> None:
    """They share base classes, which are not public: `isinstance` tells the faces apart."""
    one, other = getattr(locknut, name), getattr(locknut.aio, name)
    assert not issubclass(one, other)
    assert not issubclass(other, one)
    assert (one.__module__, other.__module__) == ("locknut", "locknut.aio")


@pytest.mark.parametrize("name", CLASSES)
def test_members_have_the_same_parameters_and_first_sentence(name: str) -> None:
    blocking, loop = members(getattr(locknut, name)), members(getattr(locknut.aio, name))
    for member, one in blocking.items():
        other = loop[TWINS.get(member, member)]
        where = f"{name}.{member}"
        assert isinstance(one, property) == isinstance(other, property), where
        assert sentence(one) == sentence(other), where
        if inspect.isfunction(one):
            assert parameters(one) == parameters(other), where


@pytest.mark.parametrize("name", CLASSES)
def test_what_waits_is_a_coroutine_and_nothing_else_is(name: str) -> None:
    loop = members(getattr(locknut.aio, name))
    found = {member for member, thing in loop.items() if is_coroutine_function(thing)}
    assert found - set(TWINS.values()) == WAITS[name]
    blocking = members(getattr(locknut, name))
    assert not [member for member, thing in blocking.items() if is_coroutine_function(thing)]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_have_the_same_parameters_and_first_sentence(name: str) -> None:
    one, other = getattr(locknut, name), getattr(locknut.aio, name)
    assert parameters(one) == parameters(other)
    assert sentence(one) == sentence(other) or name in OWN_SENTENCE
    assert not is_coroutine_function(one)
    assert is_coroutine_function(other) == (name in WAITS["Locks"]), (
        "making a lock waits for nothing"
    )


@pytest.mark.parametrize("name", CLASSES)
def test_everything_public_says_what_it_does(name: str) -> None:
    kind = getattr(locknut, name)
    silent = [
        member
        for member, thing in members(kind).items()
        if not member.startswith("__")
        and not inspect.getdoc(thing)
        and (callable(thing) or isinstance(thing, property))
    ]
    assert not silent


def sentence(thing: Any) -> str:
    """The first line of the docstring, with the words that differ by colour made equal."""
    text = (inspect.getdoc(thing) or "").split("\n", 1)[0]
    return text.replace("asyncio.Lock", "threading.RLock").replace("task", "thread")
