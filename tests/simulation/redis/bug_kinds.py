"""A bug of the Redis engine that must be found: the production code with a piece of it replaced."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from tests.simulation.bugs import Bug
from tests.simulation.network import Faults
from tests.simulation.redis.engine import REDIS
from tests.simulation.redis.faults import Edit, RedisFaults
from tests.simulation.variant import Patch, Variant


def scripted(
    *edits: Edit,
    rules: str,
    faults: Faults = RedisFaults(),  # noqa: B008  # frozen
    only: tuple[str, ...] = ("mutex",),
    sound: Variant = REDIS,
) -> Bug:
    node: Any = sound.node
    variant = replace(sound, node=partial(node, edits=edits))
    return Bug(variant, rules, faults, only, sound=sound)


def believed(
    *patches: Patch, rules: str, faults: Faults, only: tuple[str, ...], sound: Variant = REDIS
) -> Bug:
    variant = replace(sound, patches=(*sound.patches, *patches))
    return Bug(variant, rules, faults, only, sound=sound)
