"""What an engine has that wrote six methods and no more: every default of the port is safe."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from locknut.core.base import BaseBackend, BaseEngine
from locknut.core.ports import Backend, Engine, Runtime
from locknut.core.values import Answer, Busy, Capability, Claim, KeyPolicy, LockInfo, Renewal
from locknut.errors import BackendUnavailable, Unsupported
from locknut.runtimes.threads import ThreadRuntime, run


class Six(BaseBackend):
    """Writes down what is released; the second release fails."""

    name = "six"
    capabilities = frozenset({Capability.FENCING, Capability.LEASE})
    default_ttl: float | None = 30.0
    min_ttl = 0.1
    max_ttl = 60.0

    def __init__(self) -> None:
        self.released: list[tuple[str, bool]] = []

    async def attempt(self, claim: Claim, patience: float) -> Answer:
        return Busy(1.0)

    async def renew(self, claims: Sequence[Claim]) -> Sequence[Renewal]:
        return [Renewal.HELD for _ in claims]

    async def release(self, claim: Claim, *, outcome_unknown: bool = False) -> bool:
        self.released.append((claim.key, outcome_unknown))
        if claim.key == "b":
            raise BackendUnavailable("no answer")
        return True

    async def inspect(self, key: str | None = None) -> list[LockInfo]:
        return [LockInfo(name) for name in ("ns:a", "other:a") if key in {None, name}]

    async def break_hold(self, key: str, raw: int | None, note: str = "") -> LockInfo | None:
        return None

    async def close(self) -> None: ...


class SixEngine(BaseEngine):
    id = "six:"

    def blocking(self, runtime: Runtime) -> Backend:
        return Six()

    asyncio = blocking


def claim(key: str) -> Claim:
    return Claim(key, key * 32, 30.0)


def test_it_is_a_whole_backend_and_a_whole_engine() -> None:
    engine: Engine = SixEngine()
    backend: Backend = engine.blocking(ThreadRuntime())
    assert engine.anew() is engine
    assert engine.key_policy == KeyPolicy()
    assert not backend.batches
    assert not backend.passes_notes
    assert not backend.notices_hang_up
    assert not backend.waits_on_first_attempt
    assert not backend.no_tombstones
    assert not backend.inside()
    assert not backend.hung_up()
    assert backend.heartbeat is backend.max_detached_ttl is None
    backend.listen(lambda *_: None)
    backend.forked()
    backend.dropped()


def test_several_are_not_taken_in_one_step() -> None:
    assert run(Six().attempt_all([claim("a"), claim("b")])) is None


def test_one_error_does_not_keep_the_others_from_being_released() -> None:
    backend = Six()
    with pytest.raises(BackendUnavailable):
        run(backend.release_all([claim(key) for key in "abc"], outcome_unknown=True))
    assert backend.released == [("a", True), ("b", True), ("c", True)]
    assert run(Six().release_all([claim("a"), claim("c")])) == [True, True]


@pytest.mark.parametrize("verb", ["downgrade", "detach", "attach"])
def test_what_it_lacks_is_refused_by_name(verb: str) -> None:
    backend, one = Six(), claim("a")
    work: dict[str, Callable[[], Coroutine[Any, Any, object]]] = {
        "downgrade": lambda: backend.downgrade(one),
        "detach": lambda: backend.detach(one, 1.0),
        "attach": lambda: backend.attach(one, claim("b")),
    }
    with pytest.raises(Unsupported, match="six") as caught:
        run(work[verb]())
    assert caught.value.backend == "six"


def test_an_attach_is_undone_by_a_release_that_leaves_a_tombstone() -> None:
    backend = Six()
    run(backend.undo_attach(claim("a"), claim("c")))
    assert backend.released == [("a", True)]


def test_looking_at_a_namespace_is_a_filter() -> None:
    assert [each.name for each in run(Six().inspect_all("ns:"))] == ["ns:a"]
    assert [each.name for each in run(Six().inspect_holders("other:a"))] == ["other:a"]


def test_all_claims_are_in_one_place_and_a_watch_is_the_plain_signal() -> None:
    backend, signal = Six(), ThreadRuntime().signal()
    assert len(set(backend.scatter([claim("a"), claim("b")]))) == 1
    with backend.watch(claim("a"), lambda: signal) as watched:
        assert watched is signal
