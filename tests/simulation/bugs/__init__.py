"""Seeded bugs: each must be found, or the simulator proves nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from locknut.core import (
    acquiring,
    acquiring_at_once,
    giving_up,
    losing,
    pacing,
    queueing,
    releasing,
    renewing,
)
from locknut.core.client import Client
from tests.simulation.bugs import core, engine
from tests.simulation.memory.engine import PUSHING, Grants
from tests.simulation.network import Faults, StoreFaults
from tests.simulation.recorded_client import Renews
from tests.simulation.resource import Guard
from tests.simulation.simulator import Setting
from tests.simulation.sizes import FULL, Size
from tests.simulation.variant import Patch, Variant


class Bug(NamedTuple):
    """Something wrong, where it shows, and which rules it breaks."""

    variant: Variant
    rules: str
    """Any of these says so."""
    faults: Faults = Faults()  # frozen
    only: tuple[str, ...] = ("mutex",)
    guard: Guard = Guard.ENTERED
    sound: Variant = Variant()  # frozen
    """The same without the bug, which must pass the same seeds."""
    size: Size = FULL
    seeds: int = 0
    """Within so many it must be found; 0: within as many as most are."""

    @property
    def setting(self) -> Setting:
        return Setting(self.variant, self.faults, self.only, self.guard, self.size)

    @property
    def without(self) -> Setting:
        return Setting(self.sound, self.faults, self.only, size=self.size)


def _renewing(wrongly: Callable[[Renews], Renews]) -> Variant:
    return Variant(patches=(Patch(renewing, "renewed", wrongly),))


_NEVER_LOOKS = Patch(losing, "expire_if_due", core.never_looks)
_LOSSY = Faults(request_lost=0.06, reply_lost=0.06, late=0.02, slow=0.1)
_LATE = Faults(late=0.2)
_TARDY = Faults(late=0.2, slow=0.4)
_SLOW = Faults(slow=0.9, processes_stop=1.0)
_STOPS = Faults(processes_stop=0.6, slow=0.1)
_PAIR = ("pair", "twin")
_EVERYWHERE = ("mutex", "fair", "permits", "shelf", "owned")

BUGS: dict[str, Bug] = {
    "set-then-expire": Bug(
        Variant(backend=engine.SetThenExpire), "fg", Faults(processes_crash=0.5, slow=0.5)
    ),
    "get-then-delete": Bug(Variant(backend=engine.GetThenDelete), "ae", _SLOW),
    "release-anybody": Bug(Variant(store=engine.ReleasesAnybody), "ae", _STOPS),
    "renew-anybody": Bug(Variant(store=engine.RenewsAnybody), "ae", _LOSSY),
    "renewal-revives": Bug(Variant(store=engine.Revives), "e", _TARDY, _EVERYWHERE),
    "renewal-recreates": Bug(Variant(store=engine.Recreates), "e", _TARDY, _EVERYWHERE),
    "retry-keeps-expiry": Bug(Variant(store=engine.KeepsTheFirstExpiry), "a", _LOSSY),
    "no-tombstone": Bug(Variant(store=engine.ForgetsTombstones), "g", _LATE),
    "stays-in-line": Bug(Variant(store=engine.StaysInLine), "g"),
    "attach-twice": Bug(Variant(store=engine.AttachesTwice), "ab"),
    "renewal-shortens-what-is-detached": Bug(
        Variant(store=engine.ForgetsWhatIsDetached),
        "d",
        Faults(slow=0.6, late=0.1, duplicated=0.1),
        ("parcel",),
    ),
    "fence-without-clock": Bug(
        Variant(store=engine.CountsWithoutAClock), "b", Faults(engine_restarts=0.3, data_lost=1)
    ),
    "fence-of-an-older-state": Bug(
        Variant(store=engine.CountsOnFromWhatItKnows), "b", StoreFaults(older_state=0.5)
    ),
    "fence-is-the-clock": Bug(
        Variant(store=engine.CountsByTheClock), "b", Faults(clock_set_back=0.5)
    ),
    "count-of-entries": Bug(
        Variant(store=engine.CountsEntries), "fg", Faults(reply_lost=0.1), ("owned",)
    ),
    "no-net": Bug(Variant(store=engine.NoNet), "f", Faults(ring_lost=0.5), ("fair", "mutex")),
    "one-permit-too-many": Bug(Variant(store=engine.OnePermitTooMany), "a", only=("permits",)),
    "reader-beside-writer": Bug(Variant(store=engine.LetsReadersIn), "a", only=("shelf",)),
    "push-from-delivery": Bug(
        Variant(store=Grants, backend=engine.CountsFromDelivery), "a", _SLOW, sound=PUSHING
    ),
    "push-out-of-order": Bug(
        Variant(store=Grants, backend=engine.TakesOldPushes),
        "ad",
        Faults(late=0.15, processes_stop=1.0, request_lost=0.2),
        ("fair",),
        sound=PUSHING,
    ),
    "no-shield": Bug(
        Variant(runtime=core.NoShield, store=engine.ForgetsTombstones),
        "g",
        Faults(tasks_cancelled=8, slow=0.7),
        sound=Variant(store=engine.ForgetsTombstones),
    ),
    "id-per-process": Bug(Variant(runtime=core.OneIdPerProcess), "aeg"),
    "timer-decides": Bug(
        Variant(patches=(Patch(losing, "expire_if_due", core.never_looks),)), "ad", _STOPS
    ),
    "silence-is-consent": Bug(
        Variant(patches=(Patch(renewing, "renewed", core.silence_is_consent),)),
        "ad",
        Faults(request_lost=0.4),
    ),
    "renewal-from-reply": Bug(
        _renewing(core.renewed_from_the_reply),
        "ad",
        Faults(slow=0.1, processes_stop=3.0),
        ("fair",),
    ),
    "loss-not-told": Bug(
        Variant(patches=(Patch(losing, "notify_lease", core.notifies_nobody),)), "d", _STOPS
    ),
    "late-answer-counts": Bug(
        Variant(patches=(Patch(renewing, "renewed", core.takes_late_answers),)), "d", _SLOW
    ),
    "turn-kept-on-loss": Bug(Variant(client=core.KeepsTheTurn), "fg", _STOPS),
    "answer-revives": Bug(
        Variant(
            patches=(
                Patch(renewing, "renewed", core.revives_by_answer),
                Patch(losing, "expire_if_due", core.waits_to_be_revived),
            )
        ),
        "ad",
        _SLOW,
    ),
    "grant-from-reply": Bug(
        Variant(patches=(Patch(Client, "lend", core.counted_from_the_reply),)), "a", _SLOW
    ),
    "asks-with-a-released-claim": Bug(
        Variant(
            patches=(
                Patch(acquiring, "ask_again", core.releases_and_asks_again),
                Patch(acquiring, "ask_again", core.releases_and_asks_again),
            )
        ),
        "aeg",
        Faults(late=0.2, reply_lost=0.2),
    ),
    "hand-over-same-fence": Bug(
        Variant(patches=(Patch(releasing, "_decide", core.same_fence),)), "b"
    ),
    "hand-over-when-over": Bug(
        Variant(
            patches=(
                _NEVER_LOOKS,
                Patch(queueing, "may_hand_over", core.hands_over_anything),
            ),
        ),
        "ad",
        _STOPS,
    ),
    "turn-not-passed-on": Bug(
        Variant(patches=(Patch(giving_up, "retreat", core.forgets_its_turn),)),
        "fg",
        Faults(tasks_cancelled=4),
    ),
    "all-by-the-first": Bug(Variant(store=engine.LooksAtTheFirst), "ae", only=_PAIR),
    "all-keeps-expiry": Bug(
        Variant(store=engine.KeepsTheirExpiry), "a", Faults(reply_lost=0.3, slow=0.1), _PAIR
    ),
    "all-without-doubt": Bug(
        Variant(patches=(Patch(acquiring_at_once, "_leave", core.leaves_without_doubt),)),
        "g",
        Faults(late=0.6, slow=0.3, tasks_cancelled=8),
        _PAIR,
    ),
    "second-release-lost": Bug(
        Variant(patches=(Patch(releasing, "_insist", core.believes_the_second_answer),)),
        "d",
        Faults(reply_lost=0.1),
    ),
    "no-margin": Bug(
        Variant(
            patches=(
                Patch(pacing, "MARGIN_SHARE", core.no_margin),
                Patch(pacing, "MARGIN_SECONDS", core.no_margin),
            )
        ),
        "a",
        Faults(drift=0.0049, processes_stop=3.0),
    ),
    "guard-at-writes-only": Bug(Variant(), "c", _STOPS, guard=Guard.WRITES),
    "no-guard": Bug(Variant(), "c", _STOPS, guard=Guard.NONE),
}
