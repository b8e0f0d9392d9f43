"""FastAPI under uvicorn, in real processes: the application of the documentation, and faults."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.contrib.starlette.served import (
    Gate,
    Server,
    each_engine,
    page_app,
    runs_once_and_survives_kills,
)

pytest.importorskip("fastapi", reason=f"needs CPython older than {sys.version_info[:2]}")

UVICORN = ["-m", "uvicorn", "--uds", "{socket}", "--log-level", "warning", "shop:app"]


@each_engine
def test_equal_posts_run_once_and_a_killed_server_leaves_no_lock(
    url: str, tmp_path: Path, gate: Gate
) -> None:
    (tmp_path / "shop.py").write_text(page_app("FastAPI(lifespan=lifespan())   "))
    runs_once_and_survives_kills(lambda: Server(tmp_path, UVICORN, url), gate, url)
