"""A process that takes the lock "x" and keeps it: python holder.py URL SECONDS.

It says "held", and ends after so long with the lock still in its hands.
"""

from __future__ import annotations

import os
import sys
import time

import locknut

if __name__ == "__main__":
    locks = locknut.connect(sys.argv[1], namespace="t")
    lease = locks.lock("x", ttl=8).acquire()
    os.write(1, b"held\n")
    time.sleep(float(sys.argv[2]))
