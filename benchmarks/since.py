"""Locknut of this tree beside Locknut of another commit: uncontended pairs, in one run.

    python -m benchmarks.since COMMIT [file redis ...] [--processes 6] [--rounds 8] [--seconds 0.15]

The other tree runs by its own benchmarks, from a copy, whatever its package is called. From one
start of a process to the next the same code is up to a fifth faster or slower. So each side has
several processes, which all take turns, and counts as the middle of them. The servers are those of
this tree, on one core with everybody where there is only one of them.

Printed are microseconds per pair, by the wall and of the client's processor, then the other's
divided by ours: below 1, we became slower.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

from benchmarks import measuring, placing
from benchmarks.slices import ROOT, Contender, Sample
from tests.servers.redis import RedisServer
from tests.servers.redlock import RedlockNodes
from tests.servers.zookeeper import ZooKeeperServer

SEED = 2
COLUMNS = ("", "us: then", "now", "then/now", "CPU: then", "now", "then/now")


class Served(NamedTuple):
    """Where the locks of an engine live, and the process to keep beside its clients, if one."""

    place: str
    pid: int | None = None


@contextmanager
def _core() -> Iterator[Served]:
    yield Served("")


@contextmanager
def _file() -> Iterator[Served]:
    with tempfile.TemporaryDirectory(prefix="locknut-since-") as folder:
        yield Served(folder)


@contextmanager
def _redis() -> Iterator[Served]:
    with RedisServer() as server:
        yield Served(server.url, server.pid)


@contextmanager
def _redlock() -> Iterator[Served]:
    with RedlockNodes() as nodes:
        yield Served(nodes.url)


@contextmanager
def _zookeeper() -> Iterator[Served]:
    with ZooKeeperServer(waits_for_disk=True) as server:
        yield Served(server.url)


PLACES = {
    "core": _core,
    "file": _file,
    "redis": _redis,
    "redlock": _redlock,
    "zookeeper": _zookeeper,
}
COLOURS = {"blocking": "", "asyncio": ".aio"}


class Tree(NamedTuple):
    """A checked-out commit, with benchmarks of its own."""

    root: Path
    package: str

    def contender(self, engine: str, colour: str, place: str) -> Contender:
        if engine == "core":
            target, options = "benchmarks.workloads.core_pairs", {"kind": f"{colour}_calls"}
            return Contender(f"{target}:slices", options, root=self.root)
        name = f"{self.package}{COLOURS[colour]}"
        asked = {"engine": engine, "name": name, "place": place, "callers": 1}
        return Contender("benchmarks.pairing:slices", asked, root=self.root)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("commit")
    parser.add_argument("engines", nargs="*", metavar="ENGINE", help=", ".join(PLACES))
    parser.add_argument("--processes", type=int, default=6, help="of each side")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=0.15, help="of a slice")
    options = parser.parse_args()
    if unknown := set(options.engines) - set(PLACES):
        parser.error(f"there is no {unknown.pop()!r} here, only: {', '.join(PLACES)}")
    with checked_out(options.commit) as then:
        sides = {"then": then, "now": tree(ROOT)}
        print(_row(COLUMNS), flush=True)
        for engine in options.engines or PLACES:
            for colour in COLOURS:
                found = compare(
                    sides, engine, colour, options.processes, options.rounds, options.seconds
                )
                print(_row((f"{engine}, {colour}", *figures(found))), flush=True)


def compare(
    sides: dict[str, Tree], engine: str, colour: str, processes: int, rounds: int, seconds: float
) -> dict[str, list[list[Sample]]]:
    """The samples of each process of each side."""
    with ExitStack() as stack:
        served = stack.enter_context(PLACES[engine]())
        core = placing.one_core() if served.pid or engine in {"core", "file"} else None
        if served.pid:
            placing.keep_on(core, served.pid)
        slices: dict[str, Callable[[], Sample]] = {}
        for side, one in sides.items():
            for number in range(processes):
                place = served.place
                if engine == "file":  # a lock file that others have open as well costs more
                    place = tempfile.mkdtemp(dir=place)
                contender = stack.enter_context(one.contender(engine, colour, place))
                contender.keep_on(core)
                contender.run(1)  # connected
                once = contender.run(20)["wall"]  # its code specialised
                count = max(1, round(seconds / once))
                slices[f"{side} {number}"] = partial(contender.run, count)
        found = measuring.interleaved(slices, rounds, SEED)
    return {side: [found[f"{side} {number}"] for number in range(processes)] for side in sides}


def figures(found: dict[str, list[list[Sample]]]) -> list[str]:
    """What is printed of them."""
    told: list[str] = []
    for key in ("wall", "cpu"):
        then, now = (
            measuring.median(
                [measuring.best_quarter([each[key] for each in one]) for one in found[side]]
            )
            for side in ("then", "now")
        )
        told += [f"{then * 1e6:.1f}", f"{now * 1e6:.1f}", f"{then / now:.3f}"]
    return told


@contextmanager
def checked_out(commit: str) -> Iterator[Tree]:
    """A copy of that commit, for as long as it is needed."""
    pack = ["git", "archive", "--format=tar", commit, "src", "benchmarks", "tests"]
    packed = subprocess.run(pack, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    with tempfile.TemporaryDirectory(prefix="locknut-since-") as folder:
        unpack = ["tar", "-x", "-C", folder]
        subprocess.run(unpack, input=packed, check=True)
        yield tree(Path(folder))


def tree(root: Path) -> Tree:
    """With the name that the package has there: it was not always called as it is today."""
    [package] = [each.parent.name for each in root.glob("src/*/__init__.py")]
    return Tree(root, package)


def _row(cells: tuple[str, ...]) -> str:
    first, *others = cells
    return f"{first:<22}" + "".join(f"{each:>12}" for each in others)


if __name__ == "__main__":
    main()
