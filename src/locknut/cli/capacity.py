"""The verb `capacity`: what a number of locks would need of an engine, before they are there."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from locknut import urls
from locknut.capacity import Costs, Demand, Needs, costs_of, estimate
from locknut.cli import arguments
from locknut.cli.exit_codes import Exit
from locknut.cli.messages import as_json, plain, span

if TYPE_CHECKING:
    from locknut.cli.arguments import Options

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def main(_verb: str, argv: Sequence[str]) -> int:
    """The verb, from its words to its exit code: 1 if one server, or one process, is not enough."""
    options = arguments.of("capacity", argv)
    if options.locks is None:
        arguments.parser_of("capacity").error("say how many locks are held: --locks 50000")
    engine = options.address or urls.chosen(options.url)
    costs, demand = costs_of(engine), _demand(options)
    needs = estimate(demand, costs)
    if options.json:
        sys.stdout.write(as_json({**demand._asdict(), **_finite(needs)}) + "\n")
    else:
        scheme = engine.partition(":")[0]
        sys.stdout.write("\n".join(_text(plain(scheme), demand, needs, costs)) + "\n")
    return Exit.BROKEN if needs.problems else Exit.OK


def _demand(options: Options) -> Demand:
    return Demand(
        locks=options.locks or 0,
        ttl=options.needed_ttl,
        processes=options.hosts * options.processes,
        waiters=options.waiters,
        rate=options.rate,
        new_names=options.rate if options.new_names else 0.0,
        cores=options.cores,
    )


def _finite(needs: Needs) -> dict[str, object]:
    """JSON has no infinity."""
    any_number = math.isinf(needs.most_locks)
    return {**needs._asdict(), "most_locks": None if any_number else needs.most_locks}


def _text(engine: str, demand: Demand, needs: Needs, costs: Costs) -> Iterator[str]:
    ttl = f" with a ttl of {span(demand.ttl)}" if costs.renews else ""
    yield f"{engine}: {demand.locks:,} locks{ttl}, in {demand.processes:,} processes"
    yield ""
    for name, value in _lines(demand, needs, costs):
        yield f"  {name:<14}{value}"
    yield ""
    yield from needs.problems or [_enough(needs, costs)]


def _lines(demand: Demand, needs: Needs, costs: Costs) -> Iterator[tuple[str, str]]:
    if costs.renews:
        yield "renewals", f"{needs.renewals:,.0f} per second"
    if costs.served:
        yield "requests", f"{needs.requests:,.0f} per second"
        yield "server", f"{needs.server_cpu:.1%} of a core"
        yield "connections", f"{needs.connections:,}"
    yield "each process", f"{needs.client_cpu:.2%} of a core, {_size(needs.client_memory)} more"
    yield "stored", _size(needs.stored)
    if demand.new_names:
        yield "of old names", f"{_size(needs.left)}, each of them for {span(costs.left_for)}"


def _enough(needs: Needs, costs: Costs) -> str:
    most = _round(needs.most_locks)
    up_to = "" if most is None else f"; it can keep up to about {most:,} locks"
    return f"one {'server' if costs.served else 'process'} is enough{up_to}"


def _round(number: float) -> int | None:
    """Two digits: more would say more than is known. None for any number."""
    if math.isinf(number):
        return None
    return int(round(number, 1 - math.floor(math.log10(max(1.0, number)))))


def _size(number: float) -> str:
    for unit in _UNITS:
        if number < 1024 or unit == _UNITS[-1]:
            break
        number /= 1024
    return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
