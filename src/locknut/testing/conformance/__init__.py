"""The contract of every engine as a test suite, in both colours.

For an engine of your own:

    from locknut.testing.conformance import Conformance

    class TestMine(Conformance):
        url = "mine://localhost:1234"

That is all you write: pytest finds more than 200 tests and runs each with the blocking API and with
asyncio.
If the URL depends on a fixture (a server's port, a temporary folder), override `engine_url`:

    class TestMine(Conformance):
        @pytest.fixture
        def engine_url(self, server):
            return f"mine://localhost:{server.port}"

For an engine without a URL scheme, override `open_engine(self, url)`. The suite skips only what the
engine does not declare in its `capabilities`; it tests what the engine declares. Each test uses a
namespace of its own and leaves nothing behind, so a server may be shared. See docs/testing.md.
"""

from __future__ import annotations

from locknut.testing.conformance.cancellation import Cancellation
from locknut.testing.conformance.circular_waits import CircularWaits
from locknut.testing.conformance.decorators import Decorators
from locknut.testing.conformance.detach_and_attach import DetachAndAttach
from locknut.testing.conformance.group_commands import GroupCommands
from locknut.testing.conformance.inspection import Inspection
from locknut.testing.conformance.lease_loss import LeaseLoss, LeaseLossOnALoop
from locknut.testing.conformance.lock_events import LockEvents
from locknut.testing.conformance.lock_groups import LockGroups
from locknut.testing.conformance.lock_names import LockNames
from locknut.testing.conformance.mutual_exclusion import MutualExclusion
from locknut.testing.conformance.past_events import PastEvents
from locknut.testing.conformance.pings import Pings
from locknut.testing.conformance.port_rules import PortRules
from locknut.testing.conformance.queues_and_timeouts import QueuesAndTimeouts
from locknut.testing.conformance.readers_and_writers import ReadersAndWriters
from locknut.testing.conformance.refused_arguments import RefusedArguments
from locknut.testing.conformance.reports import Reports
from locknut.testing.conformance.semaphores import Semaphores
from locknut.testing.conformance.shared_owners import SharedOwners
from locknut.testing.conformance.suite import needs

__all__ = ["Conformance", "needs"]


class Conformance(
    MutualExclusion,
    QueuesAndTimeouts,
    RefusedArguments,
    LockNames,
    LeaseLoss,
    LeaseLossOnALoop,
    ReadersAndWriters,
    Semaphores,
    SharedOwners,
    LockGroups,
    Decorators,
    Inspection,
    CircularWaits,
    DetachAndAttach,
    Pings,
    LockEvents,
    PastEvents,
    Reports,
    PortRules,
    GroupCommands,
    Cancellation,
):
    """Everything an engine must do. Subclass it, name the engine, and let pytest find it."""
