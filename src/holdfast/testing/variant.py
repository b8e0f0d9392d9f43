"""What is simulated: the real thing, or the real thing with a bug put in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from holdfast.testing.client import SimClient
from holdfast.testing.engine import SimBackend
from holdfast.testing.node import SimStore
from holdfast.testing.process import SimRuntime


class Patch(NamedTuple):
    """One name of a module or class, replaced by something made from what it was."""

    where: Any
    name: str
    make: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Variant:
    """The classes a simulation is made of, and the patches under which it runs."""

    store: type[SimStore] = SimStore
    backend: type[SimBackend] = SimBackend
    client: type[SimClient] = SimClient
    runtime: type[SimRuntime] = SimRuntime
    patches: tuple[Patch, ...] = ()

    @contextmanager
    def in_force(self) -> Iterator[None]:
        before = [getattr(patch.where, patch.name) for patch in self.patches]
        for patch, original in zip(self.patches, before, strict=True):
            setattr(patch.where, patch.name, patch.make(original))
        try:
            yield
        finally:
            for patch, original in zip(self.patches, before, strict=True):
                setattr(patch.where, patch.name, original)


REAL = Variant()
