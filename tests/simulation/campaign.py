"""The command line of the simulator: many seeds, what they met, and what they broke."""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import cache, partial
from typing import NamedTuple

from tests.simulation.bugs import BUGS, Bug
from tests.simulation.checker.history import Event, timeline
from tests.simulation.simulator import SWARM, Run, Setting, run
from tests.simulation.sizes import SIZES

SHOWN = 3
"""So many broken seeds are told in full."""
_TIDY = 20
"""After so many seeds their worlds are collected. Nothing is while one runs, and in between Python
takes its time: thousands of them would fill the memory."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the seeds; 1 if a promise was broken, or a bug put in was not found."""
    options = _parser().parse_args(arguments)
    seeds = range(options.seeds.start, options.seeds.stop)
    chosen = Chosen(options.engine, options.bug, options.size)
    _setting(chosen)  # a wrong name is told before anything starts
    faults: Counter[str] = Counter()
    seen: Counter[str] = Counter()
    acquired, broken = 0, 0
    begun = time.monotonic()
    for outcome in _all(seeds, chosen, options.jobs):
        acquired += outcome.acquired
        faults += outcome.faults
        seen += outcome.seen
        if outcome.violations:
            broken += 1
            if broken <= SHOWN:
                _say(_story(outcome, chosen))
    rate = len(seeds) / max(time.monotonic() - begun, 0.001)
    _say(f"{len(seeds)} seeds, {rate:.1f} a second, {acquired} acquisitions, {broken} broken")
    _say("faults: " + _counts(faults))
    _say("seen:   " + _counts(seen))
    return int(bool(broken) != bool(options.bug))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("--seeds", type=_seeds, default=range(200), metavar="FROM:TO")
    parser.add_argument("--engine", choices=sorted(ENGINES), default="core")
    parser.add_argument("--size", choices=sorted(SIZES), help="how much happens in a run")
    parser.add_argument("--bug", metavar="NAME", help="put a bug in, which must be found")
    parser.add_argument("--jobs", type=int, default=1, help="processes to run seeds in")
    return parser


def _core() -> tuple[Setting, dict[str, Bug]]:
    return SWARM, BUGS


def _redis() -> tuple[Setting, dict[str, Bug]]:
    from tests.simulation.redis import bugs, engine  # needs a Lua interpreter

    return Setting(engine.REDIS), bugs.BUGS


def _redlock() -> tuple[Setting, dict[str, Bug]]:
    from tests.simulation.redlock import bugs, engine

    return Setting(engine.REDLOCK), bugs.BUGS


def _sql() -> tuple[Setting, dict[str, Bug]]:
    from tests.simulation.sql import bugs, engine

    return Setting(engine.SQL), bugs.BUGS


def _sql_session() -> tuple[Setting, dict[str, Bug]]:
    from tests.simulation.sql.session import bugs, engine

    return Setting(engine.SESSION), bugs.BUGS


def _sql_mixed() -> tuple[Setting, dict[str, Bug]]:
    from tests.simulation.sql.session import bugs, engine

    return Setting(engine.MIXED), bugs.BUGS


def _memcached() -> tuple[Setting, dict[str, Bug]]:
    from tests.simulation.memcached import bugs, engine

    return Setting(engine.MEMCACHED), bugs.BUGS


def _etcd() -> tuple[Setting, dict[str, Bug]]:
    from tests.simulation.etcd import bugs, engine

    return Setting(engine.ETCD), bugs.BUGS


ENGINES = {
    "core": _core,
    "etcd": _etcd,
    "redis": _redis,
    "redlock": _redlock,
    "sql": _sql,
    "sql-mixed": _sql_mixed,
    "sql-session": _sql_session,
    "memcached": _memcached,
}


class Chosen(NamedTuple):
    """What to run, by its names: a setting itself does not travel between processes."""

    engine: str
    bug: str | None
    size: str | None


@cache
def _setting(chosen: Chosen) -> Setting:
    sound, bugs = ENGINES[chosen.engine]()
    if chosen.bug is not None and chosen.bug not in bugs:
        raise SystemExit(f"no such bug; there are: {', '.join(sorted(bugs))}")
    setting = bugs[chosen.bug].setting if chosen.bug else sound
    return replace(setting, size=SIZES[chosen.size]) if chosen.size else setting


def _seeds(text: str) -> range:
    first, _, last = text.partition(":")
    return range(int(first), int(last)) if last else range(int(first), int(first) + 1)


def _all(seeds: range, chosen: Chosen, jobs: int) -> Iterator[Run]:
    if jobs > 1:
        with ProcessPoolExecutor(jobs) as pool:
            yield from pool.map(partial(_short, chosen=chosen), seeds, chunksize=8)
    else:
        yield from (_one(seed, chosen) for seed in seeds)


def _short(seed: int, chosen: Chosen) -> Run:
    """A history travels between processes only if somebody will read it."""
    return _one(seed, chosen).briefly()


def _one(seed: int, chosen: Chosen) -> Run:
    outcome = run(seed, _setting(chosen))
    if seed % _TIDY == 0:
        gc.collect()
    return outcome


def _story(outcome: Run, chosen: Chosen) -> str:
    again = f"--seeds {outcome.seed}"
    again += f" --engine {chosen.engine}" if chosen.engine != "core" else ""
    again += f" --bug {chosen.bug}" if chosen.bug else ""
    again += f" --size {chosen.size}" if chosen.size else ""
    told = [f"seed {outcome.seed} is broken; again by {again}"]
    told += [str(violation) for violation in outcome.violations[:SHOWN]]
    told.append("what happened around it:")
    told.append(timeline(_around(outcome)))
    return "\n".join(told)


def _around(outcome: Run) -> list[Event]:
    """The history of the name of the first violation, from its first event to its last."""
    events = outcome.violations[0].events or outcome.history[-20:]
    first, last = events[0].t, max(event.t for event in events)
    name = events[0].name
    return [e for e in outcome.history if first <= e.t <= last and e.name in ("", name)]


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counter.items()))


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
