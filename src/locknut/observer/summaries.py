"""What pages and tables show of an observer: owners, the hottest locks, and lines to look at."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from locknut import Holder, LockInfo
from locknut.cli.messages import who
from locknut.observer.acquisitions import Rate
from locknut.observer.place_observer import WINDOW, PlaceObserver
from locknut.observer.quantiles import quantile
from locknut.observer.sightings import Concern, Identity, Span


class Owner(NamedTuple):
    """One process, with what it holds and what it waits for."""

    title: str
    host: str
    pid: int | None
    holds: tuple[Span, ...] = ()
    waits: tuple[Span, ...] = ()


class HotLock(NamedTuple):
    """A lock that others wait for."""

    name: str
    waiting: int
    waited: float
    """Seconds that were waited for it lately, by all of its waiters together."""
    wait_p95: float | None
    hold_p95: float | None
    acquired: Rate | None
    """Per second, where programs write that down."""
    line: Sequence[int]
    """How many waited, at each of the last listings."""


def process_of(holder: Holder) -> tuple[str, int | None, str]:
    """Threads of one process belong together; where no process is known, names do."""
    known = bool(holder.host) or holder.pid is not None
    return holder.host, holder.pid, "" if known else who(holder)


def waits_since(observer: PlaceObserver, name: str, waiter: Holder) -> float | None:
    """Since when somebody waits; where the engine does not say, since it was first seen."""
    if waiter.since is not None:
        return waiter.since
    with observer.guard:
        known = observer.tracker.waits.get((name, Identity.of(waiter)))
        return None if known is None else known.since


def owners(observer: PlaceObserver) -> list[Owner]:
    """The processes with the most in their hands first."""
    found: dict[tuple[str, int | None, str], tuple[list[Span], list[Span]]] = {}
    with observer.guard:
        for each in observer.tracker.holds.values():
            found.setdefault(process_of(each.span.holder), ([], []))[0].append(each.span)
        for wait in observer.tracker.waits.values():
            found.setdefault(process_of(wait.holder), ([], []))[1].append(wait)
    told = [
        Owner(_title(*process, [*holds, *waits]), *process[:2], tuple(holds), tuple(waits))
        for process, (holds, waits) in found.items()
    ]
    return sorted(told, key=lambda each: (-len(each.holds), -len(each.waits), each.title))


def _title(host: str, pid: int | None, name: str, spans: Iterable[Span]) -> str:
    """With what the process calls itself, if it does so by one name."""
    labels = {each.holder.label for each in spans}
    told = who(Holder(host, pid, label=labels.pop())) if len(labels) == 1 else ""
    return name or told or (host if pid is None else f"{host}:{pid}")


def hottest(observer: PlaceObserver, most: int = 8) -> list[HotLock]:
    """By the time that was waited for them in the last minutes."""
    with observer.guard:
        now = observer.shown_at()
        waited: dict[str, float] = {}
        for each in (*observer.history.waits_since(now - WINDOW), *observer.tracker.waits.values()):
            since = max(each.since, now - WINDOW)
            took = (now if each.until is None else each.until) - since
            waited[each.name] = waited.get(each.name, 0.0) + max(0.0, took)
        top = sorted(waited, key=lambda name: -waited[name])[:most]
        waiting = {info.name: len(info.waiters) for info in observer.picture.locks}
        return [_hot(observer, name, waiting.get(name, 0), waited[name]) for name in top]


def _hot(observer: PlaceObserver, name: str, waiting: int, waited: float) -> HotLock:
    past = observer.history.of(name)
    return HotLock(
        name,
        waiting,
        waited,
        quantile(_durations(past.waits), 0.95),
        quantile(_durations(past.holds), 0.95),
        observer.acquisitions.of(name),
        observer.lines.of(name),
    )


def _durations(spans: Iterable[Span]) -> list[float]:
    return [each.until - each.since for each in spans if each.until is not None]


def durations(observer: PlaceObserver, name: str) -> tuple[list[float], list[float]]:
    """How long the holds of a lock lasted, and the waits for it, as far as they were seen."""
    with observer.guard:
        past, earlier = observer.history.of(name), observer.earlier
        holds = [*earlier.holds.get(name, ()), *past.holds]
        waits = [*earlier.waits.get(name, ()), *past.waits]
        return _durations(holds), _durations(waits)


def spans_of(observer: PlaceObserver, name: str) -> tuple[list[Span], list[Span]]:
    """Its holds and waits, past and present."""
    with observer.guard:
        past, earlier = observer.history.of(name), observer.earlier
        now_held = [each.span for each in observer.tracker.holds.values() if each.span.name == name]
        now_waits = [each for each in observer.tracker.waits.values() if each.name == name]
        holds = [*earlier.holds.get(name, ()), *past.holds, *now_held]
        return holds, [*earlier.waits.get(name, ()), *past.waits, *now_waits]


def age_of(observer: PlaceObserver, concern: Concern) -> float | None:
    """Seconds since it began; of a hold or a wait, until the last listing, as its text says."""
    if concern.since is None:
        return None
    lasting = concern.kind in {"long hold", "long wait", "expiring"}
    return max(0.0, (observer.shown_at() if lasting else observer.now()) - concern.since)


def longest_wait(observer: PlaceObserver) -> float | None:
    """Seconds that somebody had waited at the last listing; None if nobody did."""
    with observer.guard:
        shown = observer.shown_at()
        return max((each.lasted(shown) for each in observer.tracker.waits.values()), default=None)


def blocked(locks: Iterable[LockInfo]) -> list[LockInfo]:
    """The locks that somebody waits for, the longest lines first."""
    return sorted((each for each in locks if each.waiters), key=lambda each: -len(each.waiters))
