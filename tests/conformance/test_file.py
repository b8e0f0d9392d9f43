"""The file engine keeps the contract, in both colours."""

from __future__ import annotations

from pathlib import Path

import pytest

import locknut
from locknut import Capability
from locknut.testing.conformance import Conformance
from locknut.testing.conformance.cancellation import Cancellation
from locknut.testing.conformance.inspection import Inspection
from locknut.testing.conformance.lease_loss import LeaseLoss, LeaseLossOnALoop
from locknut.testing.conformance.mutual_exclusion import MutualExclusion
from locknut.testing.conformance.port_rules import PortRules
from locknut.testing.conformance.queues_and_timeouts import QueuesAndTimeouts
from locknut.testing.conformance.readers_and_writers import ReadersAndWriters
from locknut.testing.conformance.refused_arguments import RefusedArguments


@pytest.mark.file
class TestFile(Conformance):
    @pytest.fixture
    def engine_url(self, tmp_path: Path) -> str:
        return f"file://{tmp_path}"


@pytest.mark.file
def test_what_it_declares(tmp_path: Path) -> None:
    """Pinned, because what is not declared is not tested."""
    with locknut.connect(f"file://{tmp_path}") as locks:
        assert set(Capability) - locks.capabilities == {
            Capability.LEASE,
            Capability.DURABLE,
            Capability.REPLICATED,
        }


@pytest.mark.file
class TestPlainFile(
    MutualExclusion,
    QueuesAndTimeouts,
    RefusedArguments,
    LeaseLoss,
    LeaseLossOnALoop,
    ReadersAndWriters,
    Inspection,
    PortRules,
    Cancellation,
):
    """The plainer engine, of systems without open-file-description locks: what it can do."""

    @pytest.fixture
    def engine_url(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
        monkeypatch.setattr("locknut.backends.file.ofd_locks.works", lambda _: False)
        return f"file://{tmp_path}"


for _beyond in (
    "test_a_waiting_writer_is_not_starved",
    "test_a_downgrade_lets_waiting_readers_in_and_no_writer",
    "test_a_downgrade_asked_twice_is_one",
    "test_attaching_is_a_swap_and_asked_twice_is_one",
    "test_the_holder_is_shown_and_its_secret_is_not",
):
    setattr(TestPlainFile, _beyond, None)  # without a line, owners and detached holds
