"""`python -m tests.simulation`."""

from __future__ import annotations

import sys

from tests.simulation.campaign import main

if __name__ == "__main__":
    sys.exit(main())
