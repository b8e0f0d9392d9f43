"""The page docs/operations/capacity.md: what `scale` measured, and what the calculator says to it.

Its words are in capacity_page.md beside this file; this puts the numbers in.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks import fitting, growth
from benchmarks.numbers import Cell, shown
from locknut.capacity import Costs, Demand, estimate
from locknut.core.durations import spell

EXAMPLE = Demand(locks=50_000, ttl=30.0, processes=200)
WORDS = Path(__file__).with_suffix(".md")
Kept = dict[str, Any]


def page(kept: Kept) -> str:
    """All of it, from what is kept of all engines."""
    found = {name.partition(".")[2]: said for name, said in kept.items()}
    costs = {engine: fitting.costs(engine, said["measured"]) for engine, said in found.items()}
    parts = {
        "example": _example(costs),
        "bytes": _bytes(costs),
        "requests": _requests(costs),
        "clients": _clients(found, _rate),
        "pairs": _clients(found, _cost_of_pair),
        "growing": _growing(found),
        "engines": [line for engine, said in found.items() for line in _engine(engine, said)],
    }
    text = WORDS.read_text(encoding="utf-8")
    for name, lines in parts.items():
        text = text.replace(f"{{{name}}}", "\n".join(lines).rstrip("\n"))
    return text


def _table(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> Iterator[str]:
    yield f"| {' | '.join(columns)} |"
    yield "|---" * len(columns) + "|"
    yield from (f"| {' | '.join(map(shown, row))} |" for row in rows)


def _example(costs: dict[str, Costs]) -> Iterator[str]:
    def row(engine: str, cost: Costs) -> Sequence[Cell]:
        needs = estimate(EXAMPLE, cost)
        most = "any number" if math.isinf(needs.most_locks) else f"{needs.most_locks:,.0f}"
        return (
            f"`{engine}:`",
            round(needs.requests) if cost.served else "-",
            f"{needs.server_cpu:.1%}" if cost.served else "-",
            f"{needs.client_cpu:.2%}",
            f"{needs.stored / 2**20:.1f}",
            needs.connections if cost.served else "-",
            most,
            "; ".join(needs.problems) or "yes",
        )

    columns = (
        *("engine", "requests/s", "server, of a core", "each process, of a core", "stored MiB"),
        *("connections", "locks that one server can keep", "one server is enough"),
    )
    return _table(columns, [row(*each) for each in costs.items()])


def _bytes(costs: dict[str, Costs]) -> Iterator[str]:
    columns = (
        *("engine", "held: stored", "held: in the client", "waiter: stored"),
        *("waiter: in the client", "idle name: stored", "for how long"),
    )
    rows = [
        (
            f"`{engine}:`",
            round(cost.lock_stored),
            round(cost.lock_memory),
            round(cost.waiter_stored),
            round(cost.waiter_memory),
            round(cost.name_left),
            spell(cost.left_for) if cost.left_for else "-",
        )
        for engine, cost in costs.items()
    ]
    return _table(columns, rows)


def _requests(costs: dict[str, Costs]) -> Iterator[str]:
    columns = (
        *("engine", "acquire + release", "a renewal", "a batch of renewals", "while held"),
        *("a waiter, per s", "renewal: client CPU", "renewal: server CPU"),
        *("pair: client CPU", "pair: server CPU", "connections, holding", "connections, waiting"),
    )
    rows = [
        (
            f"`{engine}:`",
            *(_sent(cost) if cost.served else ("-",) * 5),
            1e6 * cost.renewal_client_cpu,
            1e6 * cost.renewal_server_cpu if cost.served else "-",
            1e6 * cost.pair_client_cpu,
            1e6 * cost.pair_server_cpu if cost.served else "-",
            round(cost.connections),
            round(cost.waiting_connections),
        )
        for engine, cost in costs.items()
    ]
    return _table(columns, rows)


def _sent(cost: Costs) -> tuple[Cell, ...]:
    return (
        cost.pair_requests,
        cost.renewal_requests if cost.renews else "-",
        cost.batch_requests if cost.renews else "-",
        cost.process_requests,
        cost.waiter_requests,
    )


def _clients(found: Kept, told: Callable[[Kept], Cell]) -> Iterator[str]:
    """One column for each number of clients."""
    series = {name: said["measured"]["clients"] for name, said in found.items()}
    sizes = sorted({each["clients"] for clients in series.values() for each in clients})
    rows = []
    for name, clients in series.items():
        cells = {each["clients"]: told(each) for each in clients}
        rows.append((f"`{name}:`", *(cells.get(size, "-") for size in sizes)))
    return _table(("engine", *map(str, sizes)), rows)


def _rate(each: Kept) -> Cell:
    return int(each["pairs_per_second"])


def _cost_of_pair(each: Kept) -> Cell:
    """Microseconds of processor, of both sides."""
    return int(1e6 * (each["client_cpu"] + each["server_cpu"]))


def _growing(found: Kept) -> Iterator[str]:
    rows = [(f"`{name}:`", *_powers(said)) for name, said in found.items()]
    return _table(("engine", *growth.QUANTITIES.values()), rows)


def _powers(said: Kept) -> list[Cell]:
    powers = growth.exponents(said["measured"])
    return [f"{powers[key]:.2f}" if key in powers else "-" for key in growth.QUANTITIES]


def _late(measured: Kept) -> Iterator[str]:
    share = fitting.in_time(measured)
    if share < 0.95:
        most = max(each["locks"] for each in measured["held"])
        yield (
            f"with {most:,} locks the busy machine sent only {share:.0%} of the renewals while it "
            "was looked at, the others later; the processor time of a renewal is that of those"
        )


def _engine(engine: str, said: Kept) -> Iterator[str]:
    yield f"## `{engine}:`"
    yield ""
    for chart in said["charts"]:
        yield f"![{chart['title']}](../benchmarks/scale.{engine}.{chart['name']}.svg)"
        yield ""
    yield from _table(said["columns"], said["rows"])
    yield ""
    notes = [*said["notes"], *_late(said["measured"])]
    yield from (f"* {note}" for note in notes)
    if notes:
        yield ""
    here = said["circumstances"]
    facts = [f"{key} {value}" for key, value in {**here, **said["versions"]}.items()]
    yield f"Measured {', '.join(facts).removeprefix('date ')}."
    yield ""
