"""What of the contract a variant of an engine shows in `make test`; `make test-all` adds the rest.

A variant is the same engine with another server, or on another way to it: the same code asks, and
something else answers. What is decided in the process, before or after, is the same as on the
engine's own server, which keeps all of the contract in `make test`. A variant names in `quick` what
it shows there: see conftest.py.
"""

from __future__ import annotations

from locknut.testing.conformance.detach_and_attach import DetachAndAttach
from locknut.testing.conformance.group_commands import GroupCommands
from locknut.testing.conformance.inspection import Inspection
from locknut.testing.conformance.mutual_exclusion import MutualExclusion
from locknut.testing.conformance.past_events import PastEvents
from locknut.testing.conformance.port_rules import PortRules
from locknut.testing.conformance.queues_and_timeouts import QueuesAndTimeouts
from locknut.testing.conformance.readers_and_writers import ReadersAndWriters
from locknut.testing.conformance.semaphores import Semaphores
from locknut.testing.conformance.shared_owners import SharedOwners
from locknut.testing.conformance.suite import Part

ESSENTIALS: tuple[type[Part], ...] = (MutualExclusion, PortRules)
"""For another server or another way to it: the promise itself, and each method of the port."""

EVERY_VERB: tuple[type[Part], ...] = (
    *ESSENTIALS,
    QueuesAndTimeouts,
    ReadersAndWriters,
    Semaphores,
    SharedOwners,
    Inspection,
    DetachAndAttach,
    PastEvents,
    GroupCommands,
)
"""For other scripts, statements or layouts: every verb, and what the server answers to it."""
