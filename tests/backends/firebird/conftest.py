"""The engine of `examples/firebird_engine`, as if its package were installed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contracts.sources import ROOT
from tests.servers.firebird import FirebirdServer

EXAMPLE = ROOT / "examples" / "firebird_engine"
INSTALLED = "[locknut.backends]\nfirebird = locknut_firebird:open_engine\n"


@pytest.fixture(scope="module", autouse=True)
def _installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Found by its entry point, also by processes that a test starts with this path."""
    site = tmp_path_factory.mktemp("site")
    told = site / "locknut_firebird-0.1.0.dist-info"
    told.mkdir()
    (told / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: locknut-firebird\nVersion: 0.1.0\n"
    )
    (told / "entry_points.txt").write_text(INSTALLED)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EXAMPLE)
        patch.syspath_prepend(site)
        yield


@pytest.fixture
def url(firebird_server: FirebirdServer) -> Path | str:
    return firebird_server.new_url()
