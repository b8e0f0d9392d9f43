"""Whether locks are safe and quick on this engine: what every engine is asked, then its own checks.

What every engine is asked is whether a lock can be taken and released, and how long that takes: as
a ping does, with the same reserved name, in the caller's own colour. The engine's own checks
(`Backend.checks`) only look. None of this raises because of the engine: what cannot be found out
is `unknown`, with the reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from locknut.core import findings, pinging, validation
from locknut.core.durations import spell
from locknut.core.findings import PAGE, NotKnown
from locknut.core.values import Finding
from locknut.errors import BackendUnavailable, LocknutError

if TYPE_CHECKING:
    from locknut.core.client import Client
    from locknut.core.findings import Check
    from locknut.core.ports import Backend, Runtime

_PINGS: Final = 5
_OF_THE_TIME: Final = 0.5
"""How much of the time may be spent on these; the rest is for the engine's own checks."""
_ROOMY, _TIGHT = 20.0, 4.0
"""How many times as long as the slowest ping a ttl should last, and has to. It is renewed at a
third of it, and a renewal that fails needs time to be repeated."""


def limits(
    client: Client, timeout: validation.Duration, ttl: validation.Duration | None
) -> tuple[float, float | None]:
    """Until when all of it has to be done, and the shortest ttl of the programs, if it was told."""
    client.ensure_open()
    until = client.runtime.now() + validation.seconds(timeout, "timeout")
    return until, None if ttl is None else validation.seconds(ttl, "ttl")


async def probe(client: Client, until: float, ttl: float | None) -> list[Finding]:
    """Take a lock and release it, several times."""
    runtime = client.runtime
    limit = runtime.now() + (until - runtime.now()) * _OF_THE_TIME
    took: list[float] = []
    try:
        while len(took) < 1 + _PINGS:
            took += [await pinging.ping(client, max(0.0, limit - runtime.now()))]
    except LocknutError as error:
        return _with_pages(_not_taken(error, len(took)), PAGE)
    ttl = client.backend.default_ttl if ttl is None else ttl
    found = [
        findings.ok("reachable", "The engine answers."),
        findings.ok("usable", "A lock can be taken and released."),
        _round_trip(took[1:], ttl),  # the first one opened the connection
    ]
    return _with_pages(found, PAGE)


def _not_taken(error: LocknutError, before: int) -> list[Finding]:
    said = _bare(error)
    some = f" (after {before} that worked)" if before else ""
    slow = findings.unknown("round-trip", "No lock could be taken and released to measure it.")
    if isinstance(error, BackendUnavailable):
        return [
            findings.fail(
                "reachable",
                f"The engine does not answer as it should{some}: {said}.",
                "Check the URL, the network and the server; the checks below may say more.",
            ),
            findings.unknown("usable", "The engine does not answer."),
            slow,
        ]
    return [
        findings.ok("reachable", "The engine answers."),
        findings.fail(
            "usable",
            f"The engine refuses a lock{some}: {said}.",
            "Give the user of this URL the rights that the page of the engine lists.",
        ),
        slow,
    ]


def _round_trip(took: list[float], ttl: float | None) -> Finding:
    code, worst = "round-trip", max(took)
    median = sorted(took)[len(took) // 2]
    measured = (
        f"To take and release a lock took {spell(median)} (the median of {len(took)}), "
        f"and {spell(worst)} at worst"
    )
    needed = worst * _ROOMY
    if ttl is None or ttl >= needed:
        short = "" if ttl is None else f", which is quick enough for a ttl of {spell(ttl)}"
        return findings.ok(code, f"{measured}{short}.")
    advice = f"Use a ttl of {spell(needed)} or more, or find out what is slow."
    if ttl < worst * _TIGHT:
        found = f"{measured}: a lease with a ttl of {spell(ttl)} may end before it is renewed."
        return findings.fail(code, found, advice)
    found = f"{measured}: with a ttl of {spell(ttl)}, one lost renewal may cost the lease."
    return findings.warn(code, found, advice)


async def ask_engine(
    client: Client, backend: Backend, runtime: Runtime, until: float
) -> list[Finding]:
    """The engine's own checks, one after the other; the backend is a blocking one."""
    found: list[Finding] = []
    for check in backend.checks(client.prefix):
        if runtime.now() >= until:
            found += _all_unknown(check, "There was no time left to ask.")
            continue
        try:
            answers = list(await runtime.finish(_asked(check), until))
        except LocknutError as error:
            found += _all_unknown(check, f"The engine was asked and said: {_bare(error)}.")
        except NotKnown as missing:
            found += _all_unknown(check, str(missing))
        except Exception as error:  # noqa: BLE001  # one check that is wrong costs only its answer
            found += _all_unknown(check, f"The check itself failed: {error!r}.")
        else:
            silent = set(check.codes) - {each.code for each in answers}
            missing_ones = [findings.unknown(code, "Nothing was found.") for code in sorted(silent)]
            found += _with_pages([*answers, *missing_ones], check.page)
    return found


def _bare(error: LocknutError) -> str:
    """What it says, to be put into a sentence."""
    return error.message.rstrip(".")


async def _asked(check: Check) -> list[Finding]:
    return list(await check.ask())


def _all_unknown(check: Check, why: str) -> list[Finding]:
    return _with_pages([findings.unknown(code, why) for code in check.codes], check.page)


def _with_pages(found: list[Finding], page: str) -> list[Finding]:
    return [each if each.page else each._replace(page=f"{page}#{each.code}") for each in found]


async def ask_engine_aside(client: Client, until: float) -> list[Finding]:
    """The same for a client on a loop: on a thread, with a connection of its own."""
    backend = client.keeper.open_backend()
    try:
        return await ask_engine(client, backend, client.keeper.runtime, until)
    finally:
        await backend.close()
