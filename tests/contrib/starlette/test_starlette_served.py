"""Starlette under uvicorn, in real processes: the application of the documentation."""

from __future__ import annotations

from pathlib import Path

from tests.contrib.starlette.served import (
    Gate,
    Server,
    each_engine,
    page_app,
    runs_once_and_survives_kills,
)

UVICORN = ["-m", "uvicorn", "--uds", "{socket}", "--log-level", "warning", "shop:app"]


@each_engine
def test_equal_posts_run_once_and_a_killed_server_leaves_no_lock(
    url: str, tmp_path: Path, gate: Gate
) -> None:
    (tmp_path / "shop.py").write_text(page_app("Starlette(routes=routes"))
    runs_once_and_survives_kills(lambda: Server(tmp_path, UVICORN, url), gate, url)
