"""`async with` on a blocking lock, `with` on an asyncio one: an error that names the right face.

Python finds `__aenter__` by the type alone. What stands there has to say no to everybody who only
asks whether it is there, so the error is an AttributeError too: `hasattr` says False.
"""

from __future__ import annotations

from typing import NoReturn, TypeVar

T = TypeVar("T")


class WrongFace(TypeError, AttributeError):
    """A blocking thing in asyncio code, or the other way round."""


class OtherFace:
    """In the place of a method that only the other face has."""

    __slots__ = ("_advice",)

    def __init__(self, advice: str):
        self._advice = advice

    def __get__(self, thing: object, kind: type) -> NoReturn:
        raise WrongFace(f"{kind.__module__.partition('.')[0]}.{kind.__name__}: {self._advice}")


_FOR_WITH = OtherFace(
    "`async with` needs a lock of locknut.aio: `from locknut import aio`, then aio.lock(...) or "
    "aio.connect(...); this one is for `with`"
)
_FOR_ASYNC_WITH = OtherFace(
    "this one is for `async with`; for `with`, in blocking code, use locknut.lock(...) or "
    "locknut.connect(...)"
)
_BY_HALVES = OtherFace("a read-write lock is entered by its .read() or .write()")


def for_with(kind: type[T]) -> type[T]:
    """The same class, of the blocking face: `async with` raises an error that names the other."""
    return _refuse(kind, _FOR_WITH, "__aenter__", "__aexit__")


def for_async_with(kind: type[T]) -> type[T]:
    """The same class, of the asyncio face: `with` raises an error that names the other."""
    return _refuse(kind, _FOR_ASYNC_WITH, "__enter__", "__exit__")


def by_halves(kind: type[T]) -> type[T]:
    """The same class: it is entered by what its methods give."""
    return _refuse(kind, _BY_HALVES, "__enter__", "__exit__", "__aenter__", "__aexit__")


def _refuse(kind: type[T], refusal: OtherFace, *names: str) -> type[T]:
    """Not in the class itself, where type checkers would take it for a method."""
    for name in names:
        setattr(kind, name, refusal)
    return kind
