"""How much happens in one run of the simulator."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Size:
    """How much happens in one run, and for how long."""

    disturbed: float = 12.0
    """Seconds of faults."""
    settling: float = 8.0
    """The latest a message can come that was sent in the disturbed part."""
    calm: float = 12.0
    """Seconds in which everybody must get on."""
    aftermath: float = 12.0
    """Seconds in which everything must go away: the longest ttl, and the line's patience."""
    processes: tuple[int, ...] = (2, 3, 4)
    workers: tuple[int, ...] = (1, 2, 4)
    rest: float = 1 / 8
    """Seconds between two things that a worker does."""
    busy: float = 32.0
    """Seconds in which workers begin something new."""
    rounds: int = 1_000_000
    """How often a worker does something."""
    names: int = 3
    """How many different ones there are, at most."""


FULL = Size()
DUEL = Size(
    disturbed=5.0,
    settling=4.0,
    calm=0.0,
    aftermath=8.0,
    processes=(2, 2, 2, 3),
    workers=(1,),
    rest=0.4,
    busy=6.0,
    rounds=2,
    names=1,
)
"""Two or three who want one name once, amid faults: many of these instead of few full ones."""
BOUT = replace(DUEL, disturbed=10.0, processes=(3,), busy=10.5, rounds=8)
"""Three who want it again and again."""
SIZES = {"full": FULL, "duel": DUEL, "bout": BOUT}
