"""One session with the ensemble, shared by the backends of an engine: its requests and claims.

The claims in line are kept here, because a node belongs to the session that made it. kazoo's
connection thread calls in here: it notes what was proven, rings waiters and reports a loss. It
never waits.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from kazoo.exceptions import KazooException
from kazoo.protocol.serialization import Sync
from kazoo.protocol.states import KazooState
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE

from locknut.backends.zookeeper import kazoo_client
from locknut.backends.zookeeper.claim_node import ClaimState
from locknut.backends.zookeeper.requests import PROVING, Batch
from locknut.backends.zookeeper.session_proof import Proof
from locknut.backends.zookeeper.settings import Settings
from locknut.core.values import Claim, Notice, Renewal
from locknut.runtimes import cpython

LIMIT: Final = 1.5
"""Seconds that a command may take, and a connection may take to be there, whatever the session's
timeout is and whatever time the caller has.
"""
CLOSE_PATIENCE: Final = 1.0
"""Seconds that closing waits for the servers; after that the session's timeout frees the rest."""


def _nobody(_: Batch) -> None:
    """Nobody waits for this one."""


class Session:
    """The connection, and everything that is true only as long as the session is."""

    def __init__(self, settings: Settings, now: Callable[[], float]):
        self.settings = settings
        self._now = now
        self.proof = Proof(self._ask_leader)
        self.states: dict[str, ClaimState] = {}
        self.epoch = 0
        """The number of this session among ours: the nodes of an earlier one are gone."""
        self.detached: dict[str, float] = {}
        """When this client first saw a detached hold, by its path."""
        self.acl = CREATOR_ALL_ACL if settings.private else OPEN_ACL_UNSAFE
        self.closed = False
        self.refused = False
        """Whether the servers do not accept who we say we are."""
        self.unstarted = ""
        """Why there is no client that could connect; empty if there is one."""
        self._mutex = threading.RLock()  # a destructor may leave at any moment
        self._users = 0
        self._client: Any = None
        self._connected = False
        self._gate: list[Callable[[], None]] = []
        self._listeners: list[Callable[[str | None, Notice], None]] = []

    @property
    def id(self) -> int:
        """The server's number of this session: it marks the nodes that go with it."""
        return int(self._client._session_id or 0)

    @property
    def connected(self) -> bool:
        return self._connected

    @property
    def turned_away(self) -> bool:
        """Whether the last server that we came to closed the connection without a word."""
        return not self._connected and self._client is not None and self._client.turned_away

    def listen(self, on_notice: Callable[[str | None, Notice], None]) -> None:
        """Call this for every notice. It must refer to its Locks weakly, because kazoo's thread
        keeps this session alive.
        """
        self._listeners.append(on_notice)

    def notify(self, claim_id: str | None, what: Notice) -> None:
        for on_notice in list(self._listeners):
            on_notice(claim_id, what)

    def state_of(self, claim: Claim) -> ClaimState:
        """Return what this session knows of a claim."""
        known = self.states.get(claim.id)
        if known is None:
            known = self.states[claim.id] = ClaimState(claim, self)
        elif known.epoch != self.epoch:
            known.begin_again(self.epoch)
        return known

    # Asking.

    def when_connected(self, call: Callable[[], None]) -> None:
        """Call this once there is a connection, or at once if there is one. The first call opens
        it.
        """
        with self._mutex:
            if not self._connected:
                self._gate.append(call)
                if self._unstarted():
                    # On a thread of its own, where Ctrl-C cannot interrupt it; nor in waiting
                    # for that thread to run.
                    starting = cpython.UnawaitedThread(
                        target=self._start, name="locknut-start", daemon=True
                    )
                    try:
                        starting.start()
                    except RuntimeError as error:
                        self._not_started(error)
                return
        call()

    def do_not_wait(self, call: Callable[[], None]) -> None:
        """Forget a call of `when_connected`: its caller has given up."""
        with self._mutex:
            if call in self._gate:
                self._gate.remove(call)

    def send(self, requests: Sequence[Any], done: Callable[[Batch], None]) -> Batch:
        """Send all at once; kazoo's thread calls `done` when the last one is answered."""
        self.beat()
        batch = Batch(requests, self.proof, done, self._now)
        self._client.send(requests, batch)
        return batch

    def sending(self) -> bool:
        """Whether this thread is in the middle of sending."""
        client = self._client
        return client is not None and client.sending()

    def post(self, request: Any) -> None:
        """Send without waiting for the answer."""
        self.send([request], _nobody)

    def unwatch(self, path: str, watcher: Any) -> None:
        """Forget a watcher. The server's own watch goes away together with the node."""
        client = self._client
        if client is not None:
            for watchers in (client._data_watchers, client._child_watchers):
                left = watchers.get(path)  # never by [], which would add what is not there
                if left is not None:
                    left.discard(watcher)

    def beat(self) -> float:
        """Ask for a proof of life if one is due; return the seconds until the next one is."""
        at, due = self._now(), self.proof.due()
        if at < due:
            return due - at
        self.proof.beats(at)
        self._client.send([PROVING], Batch([PROVING], self.proof, _nobody, self._now))
        return self.proof.due() - at

    def _ask_leader(self) -> None:
        question = [Sync("/")]
        self._client.send(question, Batch(question, self.proof, _nobody, self._now))

    # Its life.

    def _unstarted(self) -> bool:
        return not self.closed and (self._client is None or self._client.ended)

    def _start(self) -> None:
        with self._mutex:
            if not self._unstarted():
                return
            client = kazoo_client.SharedKazooClient(self.settings, self._now)
            if self._client is not None:
                # The reason why there is no connection stays known until the new client has tried.
                client._connection.turned_away = self._client.turned_away
                self._client.close()  # its thread is gone: only descriptors are left
            self._client = client
            client._connection.confirmed = self.proof.connected
            client._connection.beat = self.beat
            client.add_listener(self._changed)
            try:
                client.start_async()
                self.unstarted = ""
            except (RuntimeError, OSError) as error:
                self._client = None
                with suppress(KazooException, AttributeError):
                    client.close()
                self._not_started(error)

    def _not_started(self, error: Exception) -> None:
        """No thread, or no descriptor, is to be had: those who wait learn it, and the next call
        tries again.
        """
        self.unstarted = str(error)
        waiting, self._gate = self._gate, []
        for call in waiting:
            call()

    def _changed(self, state: str) -> None:
        """On kazoo's thread."""
        if self.closed:
            return
        if state == KazooState.CONNECTED:
            with self._mutex:
                self._connected = True
                waiting, self._gate = self._gate, []
            for call in waiting:
                call()
            self._ring_all()  # watches end with their connection
            return
        self._connected = False
        if state == KazooState.LOST:
            self.epoch += 1
            self.proof.lost()
            self.refused = self._client.client_state == "AUTH_FAILED"
            self.notify(None, Renewal.LOST)
            self._ring_all()
        else:
            self.notify(None, Renewal.UNKNOWN)

    def _ring_all(self) -> None:
        for state in list(self.states.values()):
            state.ring()

    def join(self) -> None:
        """One more backend uses it."""
        with self._mutex:
            self._users += 1

    def leave(self) -> threading.Thread | None:
        """The last backend ends the session, on a thread, because the servers may not answer."""
        with self._mutex:
            self._users -= 1
            client = self._client
            if self._users > 0 or self.closed:
                return None
            self.closed = True
            self._connected = False
            self._listeners.clear()
        if client is None:
            return None
        closing = cpython.UnawaitedThread(
            target=_close, args=(client,), name="locknut-closing", daemon=True
        )
        try:
            closing.start()
        except RuntimeError:  # no thread is to be had: the session is not left open for that
            _close(client)
            return None
        return closing

    def forked(self) -> None:
        """Let go in a forked child: the session is the parent's, so nothing is sent."""
        client, self._client = self._client, None
        self._mutex = threading.RLock()
        self.closed = True
        self._connected = False
        self.states.clear()
        self._listeners.clear()
        if client is not None:
            client._connection.drop_descriptors()


def _close(client: Any) -> None:
    try:
        client.stop()
        client.close()
    except KazooException:
        pass  # the client did not stop in time: the session ends by its timeout
