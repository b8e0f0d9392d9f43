"""`python -m locknut` is the command `locknut`."""

import sys

from locknut.cli import main

sys.exit(main())
