"""What an engine is written with, in one place: docs/extending.md is the page about it."""

from locknut.core.base import BaseBackend, BaseEngine
from locknut.core.findings import Check
from locknut.core.ports import NEVER, Backend, Engine, Runtime, Signal
from locknut.core.validation import check_options
from locknut.core.values import (
    Answer,
    Broken,
    Busy,
    Capability,
    Claim,
    Detail,
    Finding,
    Granted,
    HeldUntil,
    History,
    Holder,
    KeyPolicy,
    LockInfo,
    Mode,
    Notice,
    Renewal,
    Renewed,
    Severity,
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
    "Check",
    "Claim",
    "ConfigurationError",
    "Detail",
    "Engine",
    "Finding",
    "Granted",
    "HeldUntil",
    "History",
    "Holder",
    "KeyPolicy",
    "LockInfo",
    "Mode",
    "Notice",
    "Renewal",
    "Renewed",
    "Runtime",
    "Severity",
    "Signal",
    "Unsupported",
    "Url",
    "check_options",
    "time_left",
]
