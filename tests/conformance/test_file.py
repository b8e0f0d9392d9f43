"""The file engine keeps the contract, in both colours."""

from __future__ import annotations

from pathlib import Path

import pytest

import locknut
from locknut import Capability
from locknut.testing.conformance import Conformance
from locknut.testing.conformance.cancelling import Cancelling
from locknut.testing.conformance.excluding import Excluding
from locknut.testing.conformance.looking import Looking
from locknut.testing.conformance.losing import Losing, LosingOnALoop
from locknut.testing.conformance.porting import Porting
from locknut.testing.conformance.refusing import Refusing
from locknut.testing.conformance.sharing import Sharing
from locknut.testing.conformance.waiting import Waiting


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
    Excluding, Waiting, Refusing, Losing, LosingOnALoop, Sharing, Looking, Porting, Cancelling
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
    "test_adopting_is_a_swap_and_asked_twice_is_one",
    "test_the_holder_is_shown_and_its_secret_is_not",
):
    setattr(TestPlainFile, _beyond, None)  # without a line, owners and detached holds
