"""Flask under gunicorn and werkzeug, in real processes: the application of the documentation."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contrib.starlette.served import (
    Gate,
    Server,
    each_engine,
    page_app,
    runs_once_and_survives_kills,
)

GUNICORN = ["-m", "gunicorn", "--threads", "2", "--timeout", "120", "--bind", "unix:{socket}",
            "--log-level", "warning", "--no-control-socket", "--preload", "shop:app"]  # fmt: skip
WERKZEUG = ["-m", "flask", "--app", "shop", "run", "--host", "unix://{socket}"]


@each_engine
def test_equal_posts_run_once_and_a_killed_server_leaves_no_lock(
    url: str, tmp_path: Path, gate: Gate
) -> None:
    (tmp_path / "shop.py").write_text(page_app("Flask(__name__)"))
    runs_once_and_survives_kills(lambda: Server(tmp_path, GUNICORN, url), gate, url)


@pytest.mark.slow
def test_the_same_with_the_server_of_flask(url: str, tmp_path: Path, gate: Gate) -> None:
    (tmp_path / "shop.py").write_text(page_app("Flask(__name__)"))
    runs_once_and_survives_kills(lambda: Server(tmp_path, WERKZEUG, url), gate, url)
