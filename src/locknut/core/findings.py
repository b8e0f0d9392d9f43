"""How a checkup of an engine comes to its findings, and how those of several servers become one.

Codes are stable: people look them up, and CI ignores some by name. Each has its section in
docs/operations/doctor.md (a contract test keeps the two equal).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, NamedTuple

from locknut.core.durations import spell
from locknut.core.values import Finding, Severity

PAGE: Final = "docs/operations/doctor.md"
SKEW: Final = 1.0
"""Seconds by which the clock of an engine may differ from ours before somebody is told."""


_WORST_FIRST: Final = (Severity.FAIL, Severity.WARN, Severity.UNKNOWN, Severity.OK)


class Check(NamedTuple):
    """One or several questions to an engine that are asked together.

    A code for which `ask` returns no finding becomes `unknown`; if it raises, all of them do.
    """

    codes: tuple[str, ...]
    ask: Callable[[], Awaitable[Iterable[Finding]]]
    page: str = PAGE
    """Explains each code under a heading of that name."""


class NotKnown(Exception):
    """Raised where a fact that a check needs cannot be had; the text says why."""


def ok(code: str, found: str) -> Finding:
    return Finding(code, Severity.OK, found)


def warn(code: str, found: str, advice: str) -> Finding:
    return Finding(code, Severity.WARN, found, advice)


def fail(code: str, found: str, advice: str) -> Finding:
    return Finding(code, Severity.FAIL, found, advice)


def unknown(code: str, why: str, advice: str = "") -> Finding:
    return Finding(code, Severity.UNKNOWN, why, advice)


def judged(code: str, judge: Callable[[], Finding]) -> Finding:
    """What the judge says, or `unknown` where a fact is missing or makes no sense: what is found
    besides must not be lost with it.
    """
    try:
        return judge()
    except NotKnown as missing:
        return unknown(code, str(missing))
    except (LookupError, TypeError, ValueError) as error:
        return unknown(code, f"What the engine says of it is not understood: {error!r}.")


def clock(theirs: float, sent: float, received: float) -> Finding:
    """Judge the clock of an engine. It showed `theirs` at some moment between `sent` and
    `received`, which are seconds since the epoch by our own clock.
    """
    ahead = min(theirs - sent, 0.0) or max(theirs - received, 0.0)
    if abs(ahead) < SKEW:
        return ok("clock", "The clock of the engine agrees with the clock of this machine.")
    where = "ahead of" if ahead > 0 else "behind"
    return warn(
        "clock",
        f"The clock of the engine is {spell(abs(ahead))} {where} the clock of this machine.",
        "Let both machines take their time from NTP.",
    )


def merged(by_place: Mapping[str, Iterable[Finding]]) -> list[Finding]:
    """One finding for each code, as bad as the worst, where several servers were looked at."""
    if len(by_place) == 1:
        return [each for findings in by_place.values() for each in findings]
    by_code: dict[str, list[tuple[str, Finding]]] = {}
    for place, findings in by_place.items():
        for each in findings:
            by_code.setdefault(each.code, []).append((place, each))
    return [_together(several) for several in by_code.values()]


def _together(several: list[tuple[str, Finding]]) -> Finding:
    worst = min((each.severity for _, each in several), key=_WORST_FIRST.index)
    alike: dict[tuple[str, str], list[str]] = {}
    for place, each in several:
        if each.severity is worst:
            alike.setdefault((each.found, each.advice), []).append(place)
    if len(alike) == 1 and len(several) == sum(map(len, alike.values())):
        return several[0][1]  # the same everywhere
    found = " ".join(f"{', '.join(places)}: {said}" for (said, _), places in alike.items())
    advice = " ".join(dict.fromkeys(advice for _, advice in alike if advice))
    return Finding(several[0][1].code, worst, found, advice)
