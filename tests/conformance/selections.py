"""What of the contract a variant of an engine shows in `make test`, and what in `make test-all`.

A variant is the same engine with another server, or on another way to it: the same code asks, and
something else answers. So whatever a server sees is tried there in every run. What is decided in
the process, before or after, is the same as on the engine's own server, which keeps all of the
contract in `make test`.
"""

from __future__ import annotations

from locknut.testing.conformance.cancellation import Cancellation
from locknut.testing.conformance.decorators import Decorators
from locknut.testing.conformance.detach_and_attach import DetachAndAttach
from locknut.testing.conformance.group_commands import GroupCommands
from locknut.testing.conformance.inspection import Inspection
from locknut.testing.conformance.lease_loss import LeaseLoss, LeaseLossOnALoop
from locknut.testing.conformance.lock_events import LockEvents
from locknut.testing.conformance.lock_groups import LockGroups
from locknut.testing.conformance.lock_names import LockNames
from locknut.testing.conformance.mutual_exclusion import MutualExclusion
from locknut.testing.conformance.pings import Pings
from locknut.testing.conformance.port_rules import PortRules
from locknut.testing.conformance.queues_and_timeouts import QueuesAndTimeouts
from locknut.testing.conformance.readers_and_writers import ReadersAndWriters
from locknut.testing.conformance.refused_arguments import RefusedArguments
from locknut.testing.conformance.semaphores import Semaphores
from locknut.testing.conformance.shared_owners import SharedOwners


class EveryVerb(
    MutualExclusion,
    QueuesAndTimeouts,
    ReadersAndWriters,
    Semaphores,
    SharedOwners,
    Inspection,
    DetachAndAttach,
    PortRules,
    GroupCommands,
):
    """Every verb, and what the scripts and servers answer."""


class AroundTheVerbs(
    RefusedArguments,
    LockNames,
    LeaseLoss,
    LeaseLossOnALoop,
    LockGroups,
    Decorators,
    Pings,
    LockEvents,
    Cancellation,
):
    """The rest of the contract: mark it `slow`."""
