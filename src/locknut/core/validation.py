"""Checks what users pass: names, durations and numbers. The error names the argument.

Inside the core a duration is seconds as float, and a deadline is `until`; the other forms that
users may write end here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, NoReturn

from locknut.core.durations import spell
from locknut.core.values import Capability, Mode
from locknut.errors import ConfigurationError, Unsupported

if TYPE_CHECKING:
    from locknut.core.ports import Backend

Duration = int | float | str | timedelta
COMMON_OPTIONS = ("namespace", "id", "history")
"""Options of a URL that every engine has."""
MAX_NAME_BYTES = 1024
FOREVER = math.inf
MOST_HISTORY = 10_000
MOST_PERMITS = 10**14
"""From here on Lua writes a number in a form that cannot be read back exactly."""

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_NAMESPACE = re.compile(r"[A-Za-z0-9_.-]{1,128}")


def seconds(value: Duration, argument: str = "duration") -> float:
    """Seconds from 1, 1.5, "1.5", "1m30s", "250ms" or a timedelta; never NaN, never negative."""
    result = _number(value, argument)
    if math.isnan(result) or result < 0:
        raise ConfigurationError(f"{argument} must not be negative or NaN, got {value!r}")
    return result


def _number(value: Duration, argument: str) -> float:
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, str):
        return _spelled(value, argument)
    if isinstance(value, bool) or not isinstance(value, int | float):
        message = f'{argument} must be seconds, a timedelta or a text like "1m30s", got {value!r}'
        raise ConfigurationError(message)
    return float(value)


def _spelled(text: str, argument: str) -> float:
    squeezed = text.replace(" ", "")
    parts = _PART.findall(squeezed)
    if parts and "".join(number + unit for number, unit in parts) == squeezed:
        return sum(float(number) * _UNITS[unit] for number, unit in parts)
    try:
        return float(squeezed)
    except ValueError:
        message = f'{argument} must look like "90", "1.5s" or "1m30s", got {text!r}'
        raise ConfigurationError(message) from None


def nearest(word: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Which of the known words was probably meant, as the end of a message; else empty."""
    from difflib import get_close_matches  # only needed for an error

    found = get_close_matches(word.lower(), list(known), n=1, cutoff=cutoff)
    return f", did you mean {found[0]!r}?" if found else ""


def check_options(scheme: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Refuse options of a URL that its engine does not know."""
    known = tuple(known)
    for option in given:
        if option not in known:
            every = (*known, *COMMON_OPTIONS)
            meant = nearest(option, every) or f"; it knows {', '.join(every)}"
            message = f"{scheme}: does not know the option {option!r}{meant}"
            raise ConfigurationError(message, backend=scheme)


def host(value: str, backend: str) -> str:
    """The name or address of a server, if it can be looked up at all. Blanks come from `h1, h2`,
    which would be a list with one host that answers.
    """
    try:
        value.encode("idna")
        if value and value.split() != [value]:
            raise UnicodeError
    except UnicodeError:
        message = f"{value!r} is not the name of a host"
        raise ConfigurationError(message, backend=backend) from None
    return value


def name(value: object, argument: str = "name") -> str:
    """Any text that is not empty and can be written as UTF-8 in at most 1,024 bytes."""
    if not isinstance(value, str):
        raise ConfigurationError(f"{argument} must be a str, got {value!r}")
    if not value:
        raise ConfigurationError(f"{argument} must not be empty")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        message = f"{argument} must be text that UTF-8 can write, got {value!r}"
        raise ConfigurationError(message) from None
    if size > MAX_NAME_BYTES:
        message = f"{argument} is {size} bytes long, at most {MAX_NAME_BYTES} are allowed"
        raise ConfigurationError(message)
    return value


def namespace(value: str) -> str:
    """Letters, digits, `_`, `.` and `-` only, so that namespace:name is one pair and no other."""
    if not isinstance(value, str) or not _NAMESPACE.fullmatch(value):
        message = f"namespace must be 1 to 128 letters, digits, '_', '.' or '-', got {value!r}"
        raise ConfigurationError(message)
    return value


def ttl(value: Duration | None, least: float, most: float) -> float | None:
    """A ttl the engine can keep; None stays None (the engine's default)."""
    if value is None:
        return None
    result = seconds(value, "ttl")
    if not least <= result <= most:
        limits = f"{spell(least)} and {spell(most)}"
        raise ConfigurationError(f"ttl must be between {limits}, got {value!r}")
    return result


def max_hold(value: Duration | None) -> float | None:
    if value is None:
        return None
    result = seconds(value, "max_hold")
    if result == 0 or math.isinf(result):
        raise ConfigurationError(f"max_hold must be above 0 and finite, got {value!r}")
    return result


def wait(timeout: Duration | None) -> float:
    """How long to wait at most: None and -1 mean forever, 0 means one try (as in threading)."""
    if timeout is None or (timeout == -1 and not isinstance(timeout, str)):
        return FOREVER
    return seconds(timeout, "timeout")


def permits(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value < MOST_PERMITS:
        raise ConfigurationError(f"permits must be an int from 1 to 10^14 - 1, got {value!r}")
    return value


def refuse_copy(thing: object) -> NoReturn:
    """As `__reduce__`: of copies and pickles only one could be right about what is held."""
    instead = "use the lease itself; for another process, detach() gives a text to attach()"
    raise TypeError(f"a {type(thing).__name__} of Locknut cannot be copied or pickled: {instead}")


def cohort(value: object) -> int:
    """At most 31, because the hand-over number has five bits of the fence (S10)."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 31:
        raise ConfigurationError(f"cohort must be an int from 0 to 31, got {value!r}")
    return value


def breaks_deadlocks(backend: Backend, value: object) -> bool:
    """Whether waiters look for deadlocks; the engine has to tell who waits."""
    if value not in ("ignore", "raise"):
        raise ConfigurationError(f"deadlocks must be 'ignore' or 'raise', got {value!r}")
    if value == "raise":
        has(backend, Capability.WAITERS, ": deadlocks cannot be seen there")
    return value == "raise"


def history(value: object) -> int:
    """How many entries are kept: none, or some; a URL says it in digits."""
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_HISTORY:
        raise ConfigurationError(f"history must be an int from 0 to {MOST_HISTORY}, got {value!r}")
    return value


def required(names: Iterable[str]) -> tuple[str, ...]:
    """The capabilities that the user insists on. A text would be taken for its letters."""
    if isinstance(names, str):
        message = f"require must be a set of names, got {names!r}: write require={{{names!r}}}"
        raise ConfigurationError(message)
    return tuple(names)


def capability(value: str) -> Capability:
    try:
        return Capability(value)
    except ValueError:
        known = ", ".join(sorted(Capability))
        raise ConfigurationError(f"no capability is called {value!r}; there are: {known}") from None


_NEEDS = {Mode.SHARED: Capability.SHARED, Mode.PERMIT: Capability.PERMITS}


def able(backend: Backend, mode: Mode, *, fair: bool, owner: str | None) -> None:
    """Refuse a lock that the engine does not have; the error names the engine and the feature."""
    wanted = _NEEDS.get(mode)
    if wanted is not None:
        has(backend, wanted)
    if fair:
        has(backend, Capability.FAIR)
    if owner is not None:
        has(backend, Capability.OWNERS)


def has(backend: Backend, wanted: Capability, advice: str = "") -> None:
    """Refuse what the engine does not declare."""
    if wanted not in backend.capabilities:
        message = f"the {backend.name} engine does not have the capability {wanted.value!r}"
        raise Unsupported(message + advice, backend=backend.name)
