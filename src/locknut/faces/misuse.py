"""Arguments and `with` statements that were meant for something else: the error says what to write.

People come from other libraries, where the same thing has another name, or they mistype. The error
names the argument that was meant. `timeout` alone cannot be judged: it is the ttl in redis-py and
the wait here. Only beside an argument of redis-py is it certain which one is meant, and then the
error says so.

`async with` on a blocking lock and `with` on an asyncio lock raise an error that names the right
face. Python finds `__aenter__` by the type alone, so something has to stand there. It must not
look like a method to code that only asks whether there is one, so its error is an AttributeError
too, and `hasattr` returns False.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, NoReturn, ParamSpec, TypeVar

from locknut.core.validation import nearest

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

_MEANT = {
    "blocking_timeout": "timeout= is how long to wait, ttl= how long a hold lasts without renewal",
    "acquire_timeout": "timeout= is how long to wait",
    "context_manager_timeout": "timeout= is how long to wait",
    "wait": "timeout= is how long to wait",
    "wait_time": "timeout= is how long to wait",
    "wait_timeout": "timeout= is how long to wait",
    "expire": "ttl= is how long a hold lasts without renewal",
    "expires": "ttl= is how long a hold lasts without renewal",
    "expiry": "ttl= is how long a hold lasts without renewal",
    "lease": "ttl= is how long a hold lasts without renewal",
    "lease_time": "ttl= is how long a hold lasts without renewal",
    "lock_timeout": "ttl= is how long a hold lasts without renewal",
    "auto_release_time": "ttl= is how long a hold lasts without renewal",
    "lifetime": "max_hold= ends a hold, renewed or not",
    "auto_renewal": "auto_renew= renews; it is on unless you say otherwise",
    "renew": "auto_renew= renews; it is on unless you say otherwise",
    "blocking": "timeout=0 tries once; so does acquire(blocking=False)",
    "block": "timeout=0 tries once; so does acquire(blocking=False)",
    "context_manager_blocking": "timeout=0 tries once; so does acquire(blocking=False)",
    "fail_when_locked": "timeout=0 tries once; so does acquire(blocking=False)",
    "non_blocking": "timeout=0 tries once; so does acquire(blocking=False)",
    "nonblocking": "timeout=0 tries once; so does acquire(blocking=False)",
    "check_interval": "waiters are woken here, so there is nothing to set",
    "delay": "waiters are woken here, so there is nothing to set",
    "max_delay": "waiters are woken here, so there is nothing to set",
    "poll_interval": "waiters are woken here, so there is nothing to set",
    "retry_count": "timeout= is how long to wait; waiters are woken here",
    "retry_delay": "waiters are woken here, so there is nothing to set",
    "retry_interval": "waiters are woken here, so there is nothing to set",
    "sleep": "waiters are woken here, so there is nothing to set",
    "shared": "rwlock(name).read() is shared with other readers",
    "thread_local": "a hold belongs to its thread; owner= shares it, detach() hands it on",
    "token": "owner= shares a hold; the engine knows it by a token that Locknut makes",
    "identifier": "label= of connect() is what others see",
    "id": "label= of connect() is what others see; owner= shares a hold",
    **dict.fromkeys(
        ("host", "hosts", "port", "db", "username", "password", "ssl"),
        'it belongs in the URL: connect("redis://user:password@host:6379/0")',
    ),
    "timeout": "it is for each lock: lock(name, timeout=5)",
    "ttl": "it is for each lock: lock(name, ttl=30)",
    "max_leases": "permits= is the number of a semaphore",
    "value": "permits= is the number of a semaphore",
}
"""What arguments of redis-py, python-redis-lock, redlock-py, pottery, sherlock, aioredlock,
Redisson, filelock, portalocker, fasteners, kazoo, tooz and multiprocessing are called here."""
_OF_A_LOCK = frozenset({"ttl", "auto_renew", "max_hold", "fair", "owner", "on_lost", "permits"})
"""What a lock is made with; `acquire` does not take it."""
_OF_REDIS_PY = frozenset({"blocking_timeout", "blocking", "sleep", "thread_local"})


def answered(function: Callable[P, R]) -> Callable[P, R]:
    """Return the function with better errors: for an unknown argument, they name the right one."""
    code = function.__code__
    known = frozenset(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
    name = function.__qualname__.removesuffix(".__init__").rpartition(".")[2]  # as users call it

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        if kwargs and not kwargs.keys() <= known:
            raise unknown(name, kwargs, known)
        return function(*args, **kwargs)

    return checked


def answering(kind: type[T]) -> type[T]:
    """Return the class; its methods that make locks are `answered`."""
    makers = ("lock", "rwlock", "semaphore", "all", "locked", "once", "election")
    for name in (*makers, "barrier", "latch"):
        setattr(kind, name, answered(getattr(kind, name)))
    return kind


def answering_acquire(kind: type[T]) -> type[T]:
    """Return the class; its `acquire` is `answered`.

    It is called so often that the wrapper names the arguments: a correct call pays for one more
    frame, and for nothing else.
    """
    function: Callable[..., Any] = kind.acquire  # type: ignore[attr-defined]

    @wraps(function)
    def acquire(self: T, blocking: object = True, timeout: object = None, **wrong: object) -> Any:
        if wrong:
            given = wrong if timeout is None else {**wrong, "timeout": timeout}
            raise unknown("acquire", given, frozenset({"self", "blocking", "timeout"}))
        return function(self, blocking, timeout)

    kind.acquire = acquire  # type: ignore[attr-defined]
    return kind


def made_by(kind: type) -> TypeError:
    """Return the error for a class that is not meant to be called."""
    asyncio = any(base.__module__.startswith("locknut.aio") for base in kind.__mro__)
    face = "locknut.aio" if asyncio else "locknut"
    made = {"Locks": "connect(url)", "Semaphore": "semaphore(name, permits)"}
    return TypeError(
        f"{face}.{kind.__name__} is not called directly: "
        f"use {face}.{made.get(kind.__name__, 'lock(name)')}"
    )


def unknown(name: str, given: dict[str, Any], known: frozenset[str]) -> TypeError:
    """Return the error about the first argument that is not known."""
    wrong = next(each for each in given if each not in known)
    meant = _MEANT.get(wrong)
    message = f"{name}() has no argument {wrong!r}"
    before = _OF_A_LOCK if name == "acquire" else frozenset()
    if wrong in before:
        return TypeError(f"{message}: it is given when the lock is made")
    if meant is None:
        return TypeError(message + nearest(wrong, known - {"self"}))
    message += f": {meant}"
    if meant.partition("=")[0] in before:
        message += "; it is given when the lock is made"
    if "timeout" in given and not _OF_REDIS_PY.isdisjoint(given):
        message += "; what redis-py calls timeout is ttl= here"
    return TypeError(message)


class WrongFace(TypeError, AttributeError):
    """An object of the blocking face was used in asyncio code, or the other way round."""


class OtherFace:
    """It stands in the place of a method that only the other face has."""

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
    """Return the class of the blocking face: `async with` raises an error that names the other."""
    return _refuse(kind, _FOR_WITH, "__aenter__", "__aexit__")


def for_async_with(kind: type[T]) -> type[T]:
    """Return the class of the asyncio face: `with` raises an error that names the other."""
    return _refuse(kind, _FOR_ASYNC_WITH, "__enter__", "__exit__")


def by_halves(kind: type[T]) -> type[T]:
    """Return the class: `with` raises an error that names the methods whose results it takes."""
    return _refuse(kind, _BY_HALVES, "__enter__", "__exit__", "__aenter__", "__aexit__")


def _refuse(kind: type[T], refusal: OtherFace, *names: str) -> type[T]:
    """Set them from outside the class, where type checkers do not take them for methods."""
    for name in names:
        setattr(kind, name, refusal)
    return kind
