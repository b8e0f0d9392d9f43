"""What few programs use, and is imported when it is asked for: once, elections, barriers, latches.

Their classes are public names, for annotations mostly, and a Locks of either face makes them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from locknut import opening
from locknut.core import validation
from locknut.faces.options import make_options

if TYPE_CHECKING:
    from locknut.faces.once_base import OnceBase
    from locknut.faces.slots import At

OnceT = TypeVar("OnceT", bound="OnceBase[Any]")
ElectionT = TypeVar("ElectionT")
BarrierT = TypeVar("BarrierT")
LatchT = TypeVar("LatchT")

LATE: Final = {
    "Barrier": "barriers",
    "Election": "leadership",
    "Latch": "barriers",
    "Once": "scheduled_run",
    "Term": "leadership",
}
"""Where each of them is in the package of a face."""


def late_names(package: str, face: str) -> Callable[[str], Any]:
    """Make the `__getattr__` of a module that has them."""

    def find(name: str) -> Any:
        if name not in LATE:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(f"{face}.{LATE[name]}"), name)

    return find


class LateUses(opening.Opened, Generic[OnceT, ElectionT, BarrierT, LatchT]):
    """What a Locks makes besides locks."""

    @staticmethod
    @abstractmethod
    def _late(name: str, /) -> Any:
        """Return the class of this name in this face."""

    def once(  # noqa: PLR0913  # its options, each by name
        self,
        name: str,
        per: validation.Duration | None = None,
        *,
        at: At | None = None,
        at_least: validation.Duration | None = None,
        at_most: validation.Duration | None = None,
        retry: bool = False,
        ttl: validation.Duration | None = None,
    ) -> OnceT:
        """Run something at most once for each slot of a schedule, across all hosts.

        The slot is the one that begins with `at`, or the present one of length `per`. `at_most`
        ends a run that takes too long; with `retry` a run that fails or crashes is made up for.
        """
        made: OnceT = self._late("Once")(
            *(lambda: self, name, per, at),
            at_least=at_least,
            at_most=at_most,
            retry=retry,
            ttl=ttl,
        )
        return made.check_engine(self)

    def election(self, name: str, ttl: validation.Duration | None = None) -> ElectionT:
        """Make an election: one leader at a time does the work, and stand-ins take over."""
        make_options(self._client, ttl=ttl)  # what this engine cannot is refused now
        made: ElectionT = self._late("Election")(lambda: self, name, ttl)
        return made

    def barrier(
        self,
        name: str,
        parties: int,
        ttl: validation.Duration | None = None,
        timeout: validation.Duration | None = None,
    ) -> BarrierT:
        """Make a barrier: so many parties wait for each other, and all pass together.

        `ttl`: how long a party that died counts; `timeout`: how long one waits for the others.
        """
        made: BarrierT = self._late("Barrier")(self, name, parties, ttl, timeout)
        return made

    def latch(self, name: str, count: int, timeout: validation.Duration | None = None) -> LatchT:
        """Make a latch: a number that is counted down, and that others wait for to reach 0."""
        made: LatchT = self._late("Latch")(self, name, count, timeout)
        return made
