"""A naive Redlock as a bug that must be found: the production code with a piece of it replaced."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from tests.simulation.bugs import Bug
from tests.simulation.checker.verdict import Assumptions
from tests.simulation.network import Faults
from tests.simulation.redis.faults import Edit
from tests.simulation.redlock.engine import ASSUMED, REDLOCK
from tests.simulation.redlock.node_set import Cluster
from tests.simulation.sizes import DUEL, FULL, Size
from tests.simulation.variant import Patch

WAIT = replace(FULL, disturbed=3.0, settling=1.0, busy=16.0, processes=(2,), workers=(1,))
"""Long enough to see that nobody gets on."""


def naive(
    *changes: Edit | Patch,
    rules: str,
    faults: Faults,
    sizes: tuple[int, ...] = (3,),
    only: tuple[str, ...] = ("mutex",),
    given: Assumptions = ASSUMED,
    size: Size = DUEL,
) -> Bug:
    edits = tuple(each for each in changes if isinstance(each, Edit))
    patches = tuple(each for each in changes if isinstance(each, Patch))
    sound = replace(REDLOCK, node=partial(Cluster, sizes=sizes), assumptions=given)
    variant = replace(
        sound,
        node=partial(Cluster, edits=edits, sizes=sizes),
        patches=(*REDLOCK.patches, *patches),
    )
    return Bug(variant, rules, faults, only, sound=sound, size=size)
