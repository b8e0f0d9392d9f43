"""Lock names from a function's arguments: "user:{user_id}" or "invoice:{order.id}".

The template is checked against the signature when the function is decorated, not at each call.
"""

from __future__ import annotations

import inspect
import string
from collections.abc import Callable
from typing import Any

from locknut.core import validation
from locknut.errors import ConfigurationError

ON_BUSY = ("raise", "skip", "wait")


def namer(template: str, function: Callable[..., Any]) -> Callable[..., str]:
    """Return a function that makes the lock's name from the arguments of a call."""
    validation.name(template, "template")
    signature = inspect.signature(function)
    for reference in _references(template):
        _known(reference, signature, template)

    def make(*args: object, **kwargs: object) -> str:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return validation.name(template.format(**bound.arguments))

    return make


def _references(template: str) -> list[str]:
    try:
        parts = list(string.Formatter().parse(template))
    except ValueError as error:
        raise ConfigurationError(f"{template!r} is not a valid template: {error}") from None
    return [reference for _, reference, _, _ in parts if reference is not None]


def _known(reference: str, signature: inspect.Signature, template: str) -> None:
    argument = reference.partition(".")[0].partition("[")[0]
    if argument not in signature.parameters:
        known = ", ".join(signature.parameters) or "none"
        message = f"{template!r} names {argument!r}, which is not an argument (there are: {known})"
        raise ConfigurationError(message)


def policy(
    template: object, on_busy: str, timeout: validation.Duration | None
) -> validation.Duration | None:
    """Return how long a decorated function waits: it does not wait unless the user asks for it."""
    if callable(template):
        called = getattr(template, "__name__", "report")
        message = f'locked needs the name of a lock: @locked("{called}")'
        raise ConfigurationError(message)
    validation.name(template, "template")
    if on_busy not in ON_BUSY:
        message = f"on_busy must be one of {', '.join(ON_BUSY)}, got {on_busy!r}"
        raise ConfigurationError(message)
    if timeout is not None or on_busy == "wait":
        return timeout
    return 0


def refuse(function: Callable[..., Any], *, coroutine: bool) -> None:
    """Refuse a function whose body runs after the call has returned, so without the lock."""
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ConfigurationError(f"{function.__qualname__} is a generator: lock inside it instead")
    if inspect.iscoroutinefunction(function) is not coroutine:
        kind, right = ("a plain", "locknut") if coroutine else ("an async", "locknut.aio")
        message = (
            f"{function.__qualname__} is {kind} function: decorate it with `locked` of {right}"
        )
        raise ConfigurationError(message)
