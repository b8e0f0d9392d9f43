"""Resource-side checks of the fence: what a lock alone cannot promise.

A holder that was stopped wakes up after its lease has run out and goes on writing. No lock can
prevent that; the resource can, by refusing every step with a fence older than the newest one that
entered. A guard is entered before the first *read*: a check on writing alone would let an old write
in between the new holder's read and its write (S16).
"""

from locknut.guards.file import FileGuard

__all__ = ["FileGuard"]
