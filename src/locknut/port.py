"""What an engine is written with, in one place: docs/extending.md is the page about it."""

from locknut.core.base import BaseBackend, BaseEngine
from locknut.core.ports import NEVER, Backend, Engine, Runtime, Signal
from locknut.core.validation import check_options
from locknut.core.values import (
    Answer,
    Broken,
    Busy,
    Capability,
    Claim,
    Detail,
    Granted,
    HeldUntil,
    Holder,
    KeyPolicy,
    LockInfo,
    Mode,
    Notice,
    Renewal,
    Renewed,
)
from locknut.errors import BackendError, BackendUnavailable, ConfigurationError, Unsupported
from locknut.runtimes.deadlines import time_left
from locknut.urls import Address, Url

__all__ = [
    "NEVER",
    "Address",
    "Answer",
    "Backend",
    "BackendError",
    "BackendUnavailable",
    "BaseBackend",
    "BaseEngine",
    "Broken",
    "Busy",
    "Capability",
    "Claim",
    "ConfigurationError",
    "Detail",
    "Engine",
    "Granted",
    "HeldUntil",
    "Holder",
    "KeyPolicy",
    "LockInfo",
    "Mode",
    "Notice",
    "Renewal",
    "Renewed",
    "Runtime",
    "Signal",
    "Unsupported",
    "Url",
    "check_options",
    "time_left",
]
