"""How a node in quarantine learns how much time has passed: from a machine whose clock nobody sets.

A node that lost its data does not know when, and its own clock may be set while it waits: after a
boot with a wrong clock that is the rule. So the longest ttl has to pass by two clocks: the node's
own, and that of one client's machine, counted from its first question. All processes of a machine
share that clock, so that short-lived programs count as well.
"""

from __future__ import annotations

import platform
import time
from functools import cache
from pathlib import Path

from locknut.backends.redlock.nodes import NodeSet
from locknut.backends.redlock.questions import Question
from locknut.backends.redlock.recipe import Recipe
from locknut.runtimes.clock import now

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_SPACE = Path("/proc/self/ns/time")


def machine() -> tuple[bytes, float]:
    """A name for this machine and its current boot, and what its clock shows."""
    boot = _boot()
    # If the boot has no name, only the wall clock is the same for all processes.
    return (boot, now()) if boot else (platform.node().encode(), time.time())


@cache
def _boot() -> bytes:
    try:
        boot = _BOOT.read_text().strip()
    except OSError:
        return b""
    try:
        space: object = _SPACE.readlink()  # a container's clock may begin at another zero
    except OSError:
        space = ""
    return f"{boot} {space}".encode()


def watch_questions(nodes: NodeSet, recipe: Recipe) -> list[Question]:
    """What to tell the nodes in quarantine ahead of the next question: a node that has waited long
    enough votes then. Nothing, if other nodes know us as clients of another set.
    """
    if not nodes.quarantined or nodes.differences():
        return []
    name, shows = machine()
    words = recipe.watch(name, shows, nodes.majority_time())
    return [Question(at, words) for at in sorted(nodes.quarantined)]
