"""The memory engine: locks inside one process, for tests and for programs that need no more."""

from locknut.backends.memory.backend import MemoryEngine, open_engine

__all__ = ["MemoryEngine", "open_engine"]
