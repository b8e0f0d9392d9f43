"""Which of several nodes is believed about who has which slot. Pure.

A node that came back without its data, or that does not reach the others, answers all the same: it
knows no slots, some of them, or all of them as they were. So two nodes are asked that say the
cluster is well, and the younger view counts; the others are asked if there are no such two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from locknut.drivers.redis.cluster.hash_slots import Address
from locknut.errors import BackendError, BackendUnavailable

if TYPE_CHECKING:
    from locknut.drivers.redis.cluster.hash_slots import SlotMap
    from locknut.drivers.redis.settings import Settings

_ENOUGH: Final = 2


class NodeView(NamedTuple):
    """What one node said."""

    address: Address
    """The node that said it."""
    ranges: list[tuple[int, int, Address]]
    """From which slot to which, and the master of these."""
    well: bool
    """Whether it reaches the cluster, as far as it may tell us."""
    epoch: int
    """Grows with every change of masters; -1 if it may not be known."""

    @property
    def covered(self) -> int:
        return sum(last - first + 1 for first, last, _ in self.ranges)

    @property
    def rank(self) -> tuple[bool, int, int]:
        return self.well, self.epoch, self.covered


def view(address: Address, slots: Any, facts: Any) -> NodeView:
    """From the answers to CLUSTER SLOTS and CLUSTER INFO; an ACL may forbid the second."""
    ranges = []
    for first, last, master, *_ in slots:
        # A node that does not know its own name is where it was asked.
        name = master[0].decode() if master[0] else address[0]
        if name != "?":
            ranges.append((first, last, (name, master[1])))
    if not isinstance(facts, bytes):
        return NodeView(address, ranges, well=True, epoch=-1)
    known = dict(line.split(":", 1) for line in facts.decode().split() if ":" in line)
    well = known.get("cluster_state") == "ok"
    return NodeView(address, ranges, well, int(known.get("cluster_current_epoch", -1)))


class Survey:
    """The nodes that have been asked, and what they said."""

    def __init__(self) -> None:
        self._views: list[NodeView] = []
        self._failed: dict[Address, BackendError] = {}
        self._silent: list[Settings] = []
        """The nodes that had little time to answer, and get more if no other knows any slot."""

    def next(self, known: SlotMap, suspects: set[Address]) -> Settings | None:
        """Whom to ask next, if anybody: suspects only while nobody else knows any slot, and those
        once more who were silent.
        """
        usable = self._usable()
        if sum(each.well for each in usable) >= _ENOUGH:
            return None
        asked = self._failed.keys() | {each.address for each in self._views}
        masters = [address for each in usable for *_, address in each.ranges]
        for settings in known.to_ask(suspects, masters):
            address = settings.host, settings.port
            if address not in asked:
                return None if usable and address in suspects else settings
        return self._silent.pop(0) if self._silent and not usable else None

    def add(self, view: NodeView) -> None:
        self._views.append(view)
        self._failed.pop(view.address, None)

    def failed(self, settings: Settings, error: BackendError, *, silent: bool = False) -> None:
        if silent and not self.asked(settings):
            self._silent.append(settings)
        self._failed[settings.host, settings.port] = error

    def asked(self, settings: Settings) -> bool:
        """Whether it was asked before."""
        return (settings.host, settings.port) in self._failed

    def best(self) -> NodeView:
        """The view to believe; where there is none, why."""
        usable = self._usable()
        if usable:
            return max(usable, key=lambda each: each.rank)
        for error in self._failed.values():  # one that says what to do, if there is one
            if not isinstance(error, BackendUnavailable):
                raise error
        known = [f"{host}:{port} knows no slots" for (host, port), *_ in self._views]
        known += [error.message for error in self._failed.values()]
        message = f"no node of the cluster knows who has its slots: {'; '.join(known)}"
        raise BackendUnavailable(message, backend="redis")

    def poor(self) -> set[Address]:
        """The nodes that did not answer, or do not know what others know."""
        best = max((each.rank for each in self._usable()), default=None)
        poor = {each.address for each in self._views if best is None or each.rank < best}
        return poor | self._failed.keys()

    def _usable(self) -> list[NodeView]:
        return [each for each in self._views if each.covered]
