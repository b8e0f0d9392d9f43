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
from functools import partial

from locknut.testing.bugs import BUGS, Bug
from locknut.testing.history import Event, timeline
from locknut.testing.simulator import SWARM, Run, Setting, run
from locknut.testing.sizes import SIZES

SHOWN = 3
"""So many broken seeds are told in full."""
_TIDY = 20
"""After so many seeds their worlds are collected. Nothing is while one runs, and in between Python
takes its time: thousands of them would fill the memory."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the seeds; 1 if a promise was broken, or a bug put in was not found."""
    options = _parser().parse_args(arguments)
    seeds = range(options.seeds.start, options.seeds.stop)
    setting = _setting(options.engine, options.bug)
    if options.size:
        setting = replace(setting, size=SIZES[options.size])
    faults: Counter[str] = Counter()
    seen: Counter[str] = Counter()
    acquired, broken = 0, 0
    begun = time.monotonic()
    for outcome in _all(seeds, setting, options.jobs):
        acquired += outcome.acquired
        faults += outcome.faults
        seen += outcome.seen
        if outcome.violations:
            broken += 1
            if broken <= SHOWN:
                _say(_story(outcome, options.engine, options.bug))
    rate = len(seeds) / max(time.monotonic() - begun, 0.001)
    _say(f"{len(seeds)} seeds, {rate:.1f} a second, {acquired} acquisitions, {broken} broken")
    _say("faults: " + _counts(faults))
    _say("seen:   " + _counts(seen))
    return int(bool(broken) != bool(options.bug))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m locknut.testing.simulator")
    parser.add_argument("--seeds", type=_seeds, default=range(200), metavar="FROM:TO")
    parser.add_argument("--engine", choices=sorted(ENGINES), default="core")
    parser.add_argument("--size", choices=sorted(SIZES), help="how much happens in a run")
    parser.add_argument("--bug", metavar="NAME", help="put a bug in, which must be found")
    parser.add_argument("--jobs", type=int, default=1, help="processes to run seeds in")
    return parser


def _core() -> tuple[Setting, dict[str, Bug]]:
    return SWARM, BUGS


def _redis() -> tuple[Setting, dict[str, Bug]]:
    from locknut.testing.redis import bugs, engine  # needs a Lua interpreter

    return Setting(engine.REDIS), bugs.BUGS


def _redlock() -> tuple[Setting, dict[str, Bug]]:
    from locknut.testing.redlock import bugs, engine

    return Setting(engine.REDLOCK), bugs.BUGS


ENGINES = {"core": _core, "redis": _redis, "redlock": _redlock}


def _setting(engine: str, bug: str | None) -> Setting:
    sound, bugs = ENGINES[engine]()
    if bug is not None and bug not in bugs:
        raise SystemExit(f"no such bug; there are: {', '.join(sorted(bugs))}")
    return bugs[bug].setting if bug else sound


def _seeds(text: str) -> range:
    first, _, last = text.partition(":")
    return range(int(first), int(last)) if last else range(int(first), int(first) + 1)


def _all(seeds: range, setting: Setting, jobs: int) -> Iterator[Run]:
    if jobs > 1:
        with ProcessPoolExecutor(jobs) as pool:
            yield from pool.map(partial(_short, setting=setting), seeds, chunksize=8)
    else:
        yield from (_one(seed, setting) for seed in seeds)


def _short(seed: int, setting: Setting) -> Run:
    """A history travels between processes only if somebody will read it."""
    return _one(seed, setting).briefly()


def _one(seed: int, setting: Setting) -> Run:
    outcome = run(seed, setting)
    if seed % _TIDY == 0:
        gc.collect()
    return outcome


def _story(outcome: Run, engine: str, bug: str | None) -> str:
    again = f"--seeds {outcome.seed}" + (f" --engine {engine}" if engine != "core" else "")
    again += f" --bug {bug}" if bug else ""
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
