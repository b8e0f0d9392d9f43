"""The contract of every engine as a test suite, in both colours.

For an engine of your own:

    from locknut.testing.conformance import Conformance

    class TestMine(Conformance):
        url = "mine://localhost:1234"

That is all: pytest finds about 180 tests and runs each with the blocking API and with asyncio.
Where the URL depends on a fixture (a server's port, a temporary folder), give that instead:

    class TestMine(Conformance):
        @pytest.fixture
        def engine_url(self, server):
            return f"mine://localhost:{server.port}"

An engine that has no URL scheme yet overrides `open_engine(self, url)`. Only what the engine does
not declare in its `capabilities` is skipped; what it declares is tested. Each test uses a namespace
of its own and leaves nothing behind, so a server may be shared. See docs/testing.md.
"""

from __future__ import annotations

from locknut.testing.conformance.cancelling import Cancelling
from locknut.testing.conformance.decorating import Decorating
from locknut.testing.conformance.excluding import Excluding
from locknut.testing.conformance.gathering import Gathering
from locknut.testing.conformance.looking import Looking
from locknut.testing.conformance.losing import Losing, LosingOnALoop
from locknut.testing.conformance.moving import Moving
from locknut.testing.conformance.naming import Naming
from locknut.testing.conformance.owning import Owning
from locknut.testing.conformance.permitting import Permitting
from locknut.testing.conformance.pinging import Pinging
from locknut.testing.conformance.porting import Porting
from locknut.testing.conformance.refusing import Refusing
from locknut.testing.conformance.sharing import Sharing
from locknut.testing.conformance.suite import needs
from locknut.testing.conformance.telling import Telling
from locknut.testing.conformance.together import Together
from locknut.testing.conformance.waiting import Waiting

__all__ = ["Conformance", "needs"]


class Conformance(
    Excluding,
    Waiting,
    Refusing,
    Naming,
    Losing,
    LosingOnALoop,
    Sharing,
    Permitting,
    Owning,
    Gathering,
    Decorating,
    Looking,
    Moving,
    Pinging,
    Telling,
    Porting,
    Together,
    Cancelling,
):
    """Everything an engine must do. Subclass it, name the engine, and let pytest find it."""
