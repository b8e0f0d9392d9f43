"""How the text of an option, or of its variable, becomes a value, or an error in plain words."""

from __future__ import annotations

import signal
from typing import NamedTuple

from locknut.core import validation
from locknut.errors import ConfigurationError


class OnLost(NamedTuple):
    """What happens to the child when the lock is lost."""

    signum: int
    """What it is sent first; 0: nothing, a warning is enough."""
    stops: bool
    """Whether it is then killed, and the exit code is 79."""

    @property
    def death_signal(self) -> int:
        """What it is sent if locknut itself is killed: nobody is left to send a second one."""
        return signal.SIGKILL if self.stops else self.signum


_POLICIES = {
    "term": OnLost(signal.SIGTERM, stops=True),
    "kill": OnLost(signal.SIGKILL, stops=True),
    "warn": OnLost(0, stops=False),
}


def duration(text: str) -> float:
    """0.5, 90, 1m30s."""
    return validation.seconds(text, "the duration")


def moment(text: str) -> float:
    """2026-11-17T03:00Z, 2026-11-17, 1763348400."""
    from locknut.faces import slots  # only `once` has such an option

    return slots.moment(text)


def flag(text: str) -> bool:
    """How a switch is written in the environment."""
    return text.strip().lower() not in {"0", "no", "false", "off"}


def whole(text: str) -> int:
    """-1, 0, 42."""
    try:
        return int(text)
    except ValueError:
        raise ConfigurationError(f"expected a whole number, got {text!r}") from None


def exit_code(text: str) -> int:
    """What a process can exit with."""
    code = whole(text)
    if not 0 <= code <= 255:
        raise ConfigurationError(f"an exit code is 0 to 255, got {text}")
    return code


def count(text: str) -> int:
    """How many of something there are."""
    number = whole(text)
    if number < 0:
        raise ConfigurationError(f"expected a number from 0 on, got {text}")
    return number


def at_least_one(text: str) -> int:
    """How many of something there are, where there is always one."""
    number = whole(text)
    if number < 1:
        raise ConfigurationError(f"expected a number from 1 on, got {text}")
    return number


def slots(text: str) -> int:
    """How many may run at a time."""
    count = whole(text)
    if count < 1:
        raise ConfigurationError(f"at least one slot is needed, got {text}")
    return count


def port(text: str) -> int:
    """A port of TCP; 0 stands for any that is free."""
    number = whole(text)
    if not 0 <= number <= 65535:
        raise ConfigurationError(f"a port is 0 to 65535, got {text}")
    return number


def names(text: str) -> list[str]:
    """locks.example,web-3."""
    return [part.strip() for part in text.split(",") if part.strip()]


def backend_error(text: str) -> str:
    """What to do without an engine."""
    if text not in {"fail", "run", "skip"}:
        raise ConfigurationError(f"expected fail, run or skip, got {text!r}")
    return text


def colour(text: str) -> str:
    """One of the two ways to use Locknut."""
    if text not in {"blocking", "asyncio"}:
        raise ConfigurationError(f"expected blocking or asyncio, got {text!r}")
    return text


def on_lost(text: str) -> OnLost:
    """term, kill, warn or signal:NAME."""
    if text in _POLICIES:
        return _POLICIES[text]
    word, _, name = text.partition(":")
    number = getattr(signal, "SIG" + name.upper().removeprefix("SIG"), None)
    if word != "signal" or not isinstance(number, signal.Signals):
        raise ConfigurationError(f"expected term, kill, warn or signal:USR1, got {text!r}")
    return OnLost(number, stops=False)


def capabilities(text: str) -> list[str]:
    """fencing,durable: refused here if there is no such capability."""
    return [validation.capability(part.strip()).value for part in text.split(",") if part.strip()]


def words(text: str) -> list[str]:
    """one,two."""
    return [part.strip() for part in text.split(",") if part.strip()]


def lines_of_file(path: str) -> list[str]:
    """Those of a file that may have secrets in it: no error shows any of them."""
    from pathlib import Path  # few need it, and all would wait for it

    try:
        return Path(path).read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise ConfigurationError(f"{path} is not a text in UTF-8") from None
