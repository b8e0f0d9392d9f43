"""A plugin of pytest: Locknut finds itself on an interpreter that it does not know.

    python -m pytest -p tests.unknown_interpreter tests/core/test_finishing.py

It has to be loaded before anything of Locknut is. Processes that a test starts are not told.
"""

from __future__ import annotations

import sys

assert "locknut" not in sys.modules
_name = sys.implementation.name
sys.implementation.name = "unknown"
try:
    from locknut.runtimes import cpython
finally:
    sys.implementation.name = _name
assert not cpython.IS_KNOWN
