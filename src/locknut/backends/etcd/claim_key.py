"""One claim and its key: where it stands in line, as the session knows it, and how it is rung."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from locknut.backends.etcd import key_names
from locknut.core.ports import Signal
from locknut.core.values import Claim
from locknut.drivers.etcd.requests import Event, Link


class Look(NamedTuple):
    """What a claim that waits has seen: these keys keep it out, as of this revision."""

    behind: tuple[bytes, ...]
    revision: int
    net: float
    """When it looks again even if nobody rings."""


class _Watched:
    """A key that somebody waits for, until it has changed once."""

    __slots__ = ("_ring", "_watch", "over")

    def __init__(self, link: Link, key: bytes, revision: int, ring: Callable[[], None]):
        self.over = False
        self._ring = ring
        self._watch = link.watch(key, revision, self._stirred)

    def _stirred(self, _: Event) -> None:
        """On any thread: it went or was changed, or that may have happened unseen."""
        self.over = True
        self._ring()

    def close(self) -> None:
        self._watch.close()


class ClaimState:
    """One claim and its key."""

    __slots__ = (
        "_watches",
        "claim",
        "created",
        "granted",
        "in_doubt",
        "key",
        "lease",
        "look",
        "prefix",
        "session_key",
        "shows_id",
        "signal",
        "stamp",
        "tombstone",
        "value",
    )

    def __init__(self, claim: Claim, root: bytes):
        self.claim = claim
        self.prefix = key_names.line(root, claim.key, claim.mode)
        self.tombstone = key_names.gone(root, claim)
        """The key that is there if this claim was given up while a sending was under way."""
        self.lease = 0
        """The lease that its key belongs to, or is to belong to; 0: it was never asked for."""
        self.session_key = b""
        """The key that is there as long as the lease is."""
        self.stamp = 0
        """The revision that this key was put by."""
        self.key = b""
        self.shows_id = False
        """Whether the value has to say which claim this is: the key is named after another one."""
        self.value = b""
        """What its key says, once that was sent."""
        self.in_doubt = False
        """Whether something was sent for it that was not answered: it may be done later."""
        self.created = 0
        """The create revision of its key; 0 while it is not known to stand there."""
        self.granted = False
        self.look: Look | None = None
        """None: it has to look at the line."""
        self.signal: Signal | None = None
        self._watches: dict[bytes, _Watched] = {}

    def begin(self, lease: int, session_key: bytes, stamp: int, spare: bytes = b"") -> None:
        """Its key is to stand there with this lease. A key with another lease went with that.
        `spare`: a name of that lease which nobody has any more.
        """
        self.forget_watches()
        self.session_key, self.stamp = session_key, stamp
        self.key = spare or key_names.own(self.prefix, lease, self.claim.id)
        self.shows_id, self.value = bool(spare), b""
        self.created, self.granted, self.look = 0, False, None
        self.lease = lease  # last: an interrupt (Ctrl-C) may come in between, then it begins anew

    def stand(self, key: bytes, created: int) -> None:
        """Note where it stands; last what says that it does, because we may be interrupted."""
        if key != self.key:  # another client made it, and we do not know what that has sent
            self.in_doubt = True
        self.key = key
        self.created = created

    def watch(self, link: Link, look: Look) -> None:
        """Be rung when one of those keys changes, also if it did since the look."""
        for key, watched in list(self._watches.items()):
            if watched.over or key not in look.behind:
                del self._watches[key]
                watched.close()
        for key in look.behind:
            if key not in self._watches:
                self._watches[key] = _Watched(link, key, look.revision + 1, self.ring)

    def forget_watches(self) -> None:
        self.look = None
        while self._watches:
            self._watches.popitem()[1].close()

    def ring(self) -> None:
        """Wake the waiter, from any thread, so that it looks again."""
        self.look = None
        signal = self.signal
        if signal is not None:
            signal.notify()
