"""What every engine is asked, and what becomes of checks that cannot be made."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

import locknut
from locknut.backends.memory import MemoryEngine
from locknut.backends.memory.backend import MemoryBackend
from locknut.core import findings
from locknut.core.findings import PAGE, Check, NotKnown, merged, ok, warn
from locknut.core.ports import Runtime
from locknut.core.values import Answer, Claim, Finding, Severity
from locknut.errors import BackendError, BackendUnavailable, ConfigurationError
from locknut.opening import Settings
from locknut.runtimes.threads import ThreadRuntime
from locknut.testing.conformance.colours import COLOURS
from tests.checkups import FAIL, OK, UNKNOWN, WARN, by_code, examine

both_colours = pytest.mark.parametrize("colour", list(COLOURS))


class Examined(MemoryBackend):
    """Refuses what it is told to refuse; has the checks of its engine."""

    def __init__(self, engine: Engine, runtime: Runtime):
        super().__init__(engine, runtime)
        self._examined = engine

    async def attempt(self, claim: Claim, patience: float) -> Answer:
        if self._examined.refusal is not None:
            raise self._examined.refusal
        self._examined.clock += self._examined.slowness
        return await super().attempt(claim, patience)

    def checks(self, prefix: str) -> Sequence[Check]:
        assert prefix == "t:"
        return self._examined.checks


class Engine(MemoryEngine):
    """What both colours are made of, and what the next lock comes to."""

    def __init__(self, *checks: Check) -> None:
        super().__init__()
        self.checks = checks
        self.refusal: BackendError | None = None
        self.clock = 0.0
        self.slowness = 0.0
        self.default_ttl: float | None = 30.0

    def blocking(self, runtime: Runtime) -> MemoryBackend:
        made = Examined(self, runtime)
        made.default_ttl = self.default_ttl
        return made

    asyncio = blocking


def examined(engine: Engine, colour: str, **options: Any) -> tuple[Finding, ...]:
    paint = COLOURS[colour]()

    async def story() -> tuple[Finding, ...]:
        locks: Any = paint.locks(engine, Settings("t"))
        found: tuple[Finding, ...] = await locks.doctor(**options)
        await locks.close()
        return found

    found: tuple[Finding, ...] = paint.run(story())
    return found


def finding(*found: Finding) -> Check:
    async def ask() -> Sequence[Finding]:
        return found

    return Check(tuple(each.code for each in found), ask)


def raising(error: Exception, *codes: str) -> Check:
    async def ask() -> Sequence[Finding]:
        raise error

    return Check(codes, ask)


@both_colours
def test_an_engine_without_checks_has_the_common_ones(colour: str) -> None:
    found = examine("memory:", colour)
    assert {code: each.severity for code, each in found.items()} == {
        "reachable": OK,
        "usable": OK,
        "round-trip": OK,
    }


@both_colours
def test_one_that_does_not_answer_is_a_finding_and_its_checks_are_made(colour: str) -> None:
    engine = Engine(finding(warn("file-space", "It is full.", "Make room.")))
    engine.refusal = BackendUnavailable("nobody is there")
    found = by_code(examined(engine, colour))
    assert found["reachable"].severity is FAIL
    assert "nobody is there" in found["reachable"].found
    assert found["usable"].severity is found["round-trip"].severity is UNKNOWN
    assert found["file-space"].severity is WARN


@both_colours
def test_one_that_refuses_is_reachable(colour: str) -> None:
    engine = Engine()
    engine.refusal = BackendError("no such user")
    found = by_code(examined(engine, colour))
    assert found["reachable"].severity is OK
    assert found["usable"].severity is FAIL
    assert "no such user" in found["usable"].found


@both_colours
@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (BackendError("CONFIG is forbidden"), "CONFIG is forbidden"),
        (NotKnown("Nobody says."), "Nobody says."),
        (ZeroDivisionError("oops"), "ZeroDivisionError('oops')"),
    ],
)
def test_a_check_that_raises_is_unknown_and_the_others_are_made(
    colour: str, error: Exception, reason: str
) -> None:
    good = ok("file-space", "There is room.")
    engine = Engine(raising(error, "file-system", "file-locks"), finding(good))
    found = {each.code: each for each in examined(engine, colour)}
    for code in ("file-system", "file-locks"):
        assert found[code].severity is UNKNOWN
        assert reason in found[code].found
        assert found[code].page == f"{PAGE}#{code}"
    assert found["file-space"].severity is OK


def test_a_code_without_a_finding_is_unknown() -> None:
    async def ask() -> Sequence[Finding]:
        return ()

    found = by_code(examined(Engine(Check(("file-locks",), ask)), "blocking"))
    assert found["file-locks"].severity is UNKNOWN


def test_an_engine_of_others_has_a_page_of_its_own() -> None:
    check = raising(NotKnown("?"), "mine")._replace(page="https://example.org/checks")
    own = finding(Finding("own", Severity.OK, "Good.", page="https://example.org/own"))
    found = {each.code: each for each in examined(Engine(check, own), "blocking")}
    assert found["mine"].page == "https://example.org/checks#mine"
    assert found["own"].page == "https://example.org/own"


@both_colours
def test_when_the_time_is_over_the_rest_is_unknown(colour: str) -> None:
    engine = Engine(finding(ok("file-space", "There is room.")))
    found = by_code(examined(engine, colour, timeout=0))
    assert found["file-space"].severity is UNKNOWN
    assert "no time" in found["file-space"].found


def slow(engine: Engine, ttl: Any = None) -> Finding:
    """What is found where time passes only while the engine is asked."""
    runtime = ThreadRuntime(lambda: engine.clock)
    with locknut.Locks(engine, Settings("t"), runtime=runtime) as locks:
        return by_code(locks.doctor(timeout=1000, ttl=ttl))["round-trip"]


@pytest.mark.parametrize(
    ("slowness", "ttl", "severity"),
    [(1.0, None, OK), (2.0, None, WARN), (8.0, None, FAIL), (0.1, 1, WARN), (0.1, "3s", OK)],
)
def test_a_ttl_that_is_too_short_for_the_round_trip(
    slowness: float, ttl: Any, severity: Severity
) -> None:
    engine = Engine()
    engine.slowness = slowness
    assert slow(engine, ttl).severity is severity


def test_without_a_ttl_nothing_is_too_slow() -> None:
    engine = Engine()
    engine.slowness, engine.default_ttl = 8.0, None
    assert slow(engine).severity is OK


def test_wrong_arguments_and_a_closed_client_are_refused() -> None:
    locks = locknut.connect("memory:")
    with pytest.raises(ConfigurationError, match="timeout"):
        locks.doctor(timeout=-1)
    with pytest.raises(ConfigurationError, match="ttl"):
        locks.doctor(ttl="soon")
    locks.close()
    with pytest.raises(ConfigurationError, match="closed"):
        locks.doctor()


def test_a_task_that_is_cancelled_leaves_nothing_behind() -> None:
    """The checks go on, on their thread, to their own end."""
    from locknut import aio

    async def story() -> None:
        locks = aio.connect("memory:doctor-cancelled")
        task = asyncio.create_task(locks.doctor())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await locks.list() == []
        await locks.close()

    asyncio.run(story())


@pytest.mark.parametrize(
    ("theirs", "severity", "word"),
    [(100.5, OK, ""), (102.9, WARN, "ahead of"), (98.0, WARN, "behind"), (101.9, OK, "")],
)
def test_a_clock_is_judged_by_what_it_can_be(theirs: float, severity: Severity, word: str) -> None:
    """It was read at some moment between 100 and 101."""
    found = findings.clock(theirs, 100.0, 101.0)
    assert found.severity is severity
    assert word in found.found


def test_findings_of_several_servers_are_one_as_bad_as_the_worst() -> None:
    good, bad = ok("clock", "Fine."), warn("clock", "Late.", "Set it.")
    assert merged({"a": [good], "b": [good]}) == [good]
    assert merged({"a": [bad]}) == [bad]
    assert merged({"a": [good], "b": [bad], "c": [bad]}) == [
        warn("clock", "b, c: Late.", "Set it.")
    ]
    unknown = findings.unknown("clock", "Who knows.")
    assert merged({"a": [good], "b": [unknown]})[0].severity is UNKNOWN
