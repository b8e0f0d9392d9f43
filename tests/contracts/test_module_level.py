"""What is said to the module is said to the default Locks: the same options, each passed on."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from types import ModuleType
from typing import Any, get_type_hints

import pytest

import locknut
from locknut import aio
from locknut.faces.options import LockKeywords
from locknut.faces.slots import At

NAMES = [
    "all", "election", "force_release", "history", "info", "list",
    "lock", "locked", "once", "ping", "rwlock", "semaphore",
]  # fmt: skip
"""Every method of a Locks that makes a lock or looks at one."""
OF_ONE_LOCKS = {
    "attach", "backend", "capabilities", "close", "doctor", "namespace", "on_event", "place",
    "barrier", "latch",  # the default engine, `file:`, does not have them
}  # fmt: skip
OF_SEVERAL = {"waits_for"}
"""Their functions take any number of Locks."""
GIVEN: dict[str, Any] = {
    "ttl": 7,
    "timeout": 3,
    "auto_renew": False,
    "max_hold": 90,
    "fair": True,
    "owner": "me",
    "on_lost": print,
}
"""A value for every option that is not its default."""

LAZY = {"Once": "Once", "Election": "Election", "At": At}
"""What `import locknut` does not bring, and a type checker knows."""

both_faces = pytest.mark.parametrize("face", [locknut, aio], ids=lambda face: str(face.__name__))


@pytest.fixture(autouse=True)
def _own_engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("LOCKNUT_URL", "memory:module-level")
    monkeypatch.setattr(locknut, "_default", [])
    yield
    locknut.default().close()


def in_colour(face: ModuleType, call: Any) -> Any:
    """What it gives; inside a task where asyncio wants one."""
    if face is locknut:
        return call()

    async def main() -> Any:
        given = call()
        given = await given if inspect.isawaitable(given) else given
        await aio.default().close()
        return given

    return asyncio.run(main())


@both_faces
@pytest.mark.parametrize("name", NAMES)
def test_a_function_has_the_signature_and_the_sentence_of_its_method(
    face: ModuleType, name: str
) -> None:
    function, method = getattr(face, name), getattr(face.Locks, name)
    of_method = inspect.signature(method, locals=LAZY, eval_str=True)
    without_self = list(of_method.parameters.values())[1:]
    of_function = inspect.signature(function, locals=LAZY, eval_str=True)
    assert of_function == of_method.replace(parameters=without_self)
    assert not [each for each in without_self if each.kind is each.VAR_KEYWORD]
    assert inspect.getdoc(function).split("\n")[0] == inspect.getdoc(method).split("\n")[0]  # type: ignore[union-attr]


@both_faces
def test_nothing_that_makes_a_lock_is_missing(face: ModuleType) -> None:
    public = {name for name in dir(face.Locks) if not name.startswith("_")}
    assert public == {*NAMES, *OF_ONE_LOCKS, *OF_SEVERAL}
    assert {*NAMES, *OF_SEVERAL} <= set(face.__all__)


@both_faces
@pytest.mark.parametrize("name", ["lock", "rwlock", "semaphore", "all"])
def test_every_option_is_passed_on(face: ModuleType, name: str) -> None:
    def made(maker: Any) -> list[Any]:
        options = {key: GIVEN[key] for key in inspect.signature(maker).parameters if key in GIVEN}
        lock = maker("x", *([5] if name == "semaphore" else []), **options)
        halves = [lock.read(), lock.write()] if name == "rwlock" else [lock]
        if name == "all":
            return [lock._timeout, *(request.options for _, request in lock._parts)]
        return [(each._timeout, each._request.options, each._on_lost) for each in halves]

    one, other = in_colour(
        face, lambda: (made(getattr(face, name)), made(getattr(face.default(), name)))
    )
    assert one == other
    assert str(7.0) in str(one)


@both_faces
def test_the_decorator_passes_every_option_on(
    face: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[dict[str, Any]] = []
    before = face.Locks.lock
    watched = lambda self, name, **options: seen.append(options) or before(self, name, **options)  # type: ignore[func-returns-value]  # noqa: E731
    monkeypatch.setattr(face.Locks, "lock", watched)
    decorate = face.locked("x", **GIVEN)
    assert not seen, "which engine it is must not be asked before the call"
    if face is locknut:

        @decorate  # type: ignore[untyped-decorator]
        def function() -> int:
            return 7

    else:

        @decorate  # type: ignore[untyped-decorator]
        async def function() -> int:
            return 7

    assert in_colour(face, function) == 7
    assert seen == [GIVEN]


@both_faces
def test_the_decorator_refuses_at_once_what_is_wrong_on_every_engine(face: ModuleType) -> None:
    wrong: list[dict[str, Any]] = [
        {"on_busy": "explode"}, {"timeout": -3}, {"ttl": -1}, {"max_hold": 0}, {"owner": ""},
        {"on_lost": "explode"},
    ]  # fmt: skip
    for each in wrong:
        with pytest.raises(locknut.ConfigurationError, match="|".join(each)):
            face.locked("x", **each)
    with pytest.raises(locknut.ConfigurationError, match=r'@locked\("in_colour"\)'):
        face.locked(in_colour)


@both_faces
def test_looking_and_breaking(face: ModuleType) -> None:
    with locknut.lock("x") as lease:
        assert in_colour(face, lambda: face.info("x")).locked
        assert [each.name for each in in_colour(face, lambda: face.list("x*"))] == ["x"]
        assert in_colour(face, lambda: face.list("y*")) == []
        with pytest.raises(locknut.StaleFence):
            in_colour(face, lambda: face.force_release("x", lease.fence + 32))
        assert in_colour(face, lambda: face.ping(9)).backend == "memory"
    assert in_colour(face, lambda: face.force_release("x", reason="a test")) is False


@both_faces
@pytest.mark.parametrize("name", NAMES)
def test_an_unknown_option_is_named(face: ModuleType, name: str) -> None:
    with pytest.raises(TypeError, match="tll"):
        getattr(face, name)("x", tll=3)


@both_faces
def test_the_options_of_the_decorator_are_those_of_a_lock(face: ModuleType) -> None:
    lock = get_type_hints(face.Locks.lock)
    del lock["name"], lock["timeout"], lock["return"]
    assert get_type_hints(LockKeywords) == lock
