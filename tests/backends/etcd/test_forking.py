"""A forked child lets its parent's lease alone, in both colours."""

from __future__ import annotations

import pytest

from tests.backends.etcd.conftest import PATIENCE
from tests.forks.engine_children import (
    a_dead_parents_lock_is_free,
    a_loop_survives_the_child,
    the_childs_lease_is_inert,
)

pytestmark = [pytest.mark.etcd, pytest.mark.faults]


def test_the_childs_lease_is_inert_and_the_parents_lives(url: str) -> None:
    the_childs_lease_is_inert(url)


def test_a_loops_lease_survives_the_child(url: str) -> None:
    a_loop_survives_the_child(url)


@pytest.mark.slow
def test_the_child_does_not_keep_its_dead_parents_lock(url: str) -> None:
    """Nobody in it keeps the parent's lease alive."""
    a_dead_parents_lock_is_free(f"{url}?session_ttl=3", PATIENCE)
