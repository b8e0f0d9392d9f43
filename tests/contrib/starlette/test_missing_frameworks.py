"""A framework that is missing, or too old to keep a promise, is refused with what to do."""

from __future__ import annotations

import subprocess
import sys

import pytest

WITHOUT = """
import sys
sys.modules[{package!r}] = None
try:
    import locknut.contrib.{module}
except ImportError as error:
    print(error)
"""
TOO_OLD = """
import fastapi
fastapi.__version__ = "0.121.0"
try:
    import locknut.contrib.fastapi
except ImportError as error:
    print(error)
"""


def said_by(program: str) -> str:
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("module", ["fastapi", "starlette", "flask"])
def test_a_missing_framework_is_named_with_its_extra(module: str) -> None:
    said = said_by(WITHOUT.format(module=module, package=module))
    assert f'get it with: pip install "locknut[{module}]"' in said


def test_a_fastapi_that_would_answer_too_early_is_refused() -> None:
    pytest.importorskip("fastapi", reason=f"needs CPython older than {sys.version_info[:2]}")
    assert said_by(TOO_OLD) == (
        "locknut.contrib.fastapi needs FastAPI 0.122 or newer, not 0.121.0\n"
    )
