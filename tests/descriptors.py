"""A process that may open no more files, or only a few."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def descriptors_left(number: int) -> Iterator[None]:
    """This process may open so many more."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = [os.dup(0) for _ in range(number + 1)]
    for each in free:
        os.close(each)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free[-1], before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
