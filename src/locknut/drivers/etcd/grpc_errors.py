"""What it means that a request failed: by the status of its answer, or because none came."""

from __future__ import annotations

import ssl
from typing import Final
from urllib.parse import unquote

from locknut.drivers.etcd import rpc_messages as messages
from locknut.drivers.etcd.calls import Answer
from locknut.drivers.etcd.http2 import UNTOUCHED
from locknut.drivers.etcd.requests import LeaseGone
from locknut.drivers.etcd.settings import NAME, Settings
from locknut.errors import BackendError, BackendUnavailable, ConfigurationError, LocknutError
from locknut.runtimes.deadlines import hurried

OK: Final = 0
INVALID: Final = 3
NOT_FOUND: Final = 5
NOT_ALLOWED: Final = 7
NOT_READY: Final = 9
UNAUTHENTICATED: Final = 16
_UNKNOWN: Final = frozenset({1, 2, 4, 13, 14})
"""Canceled, unknown, too late, internal, unavailable: the request may have been done."""
_LEASE: Final = "lease not found"
_OLD_LOGIN: Final = ("invalid auth token", "revision of auth store is old")
_NO_LOGIN: Final = ("user name is empty", "user name not found")
_WRONG_LOGIN: Final = "authentication failed"
_FULL: Final = "database space exceeded"
_BUSY: Final = "too many requests"
_NO_LEADER: Final = "etcdserver: no leader"
_OURS_WANTED: Final = ("CERTIFICATE_REQUIRED", "ALERT_BAD_CERTIFICATE")
"""What the server says to a client without a certificate, or with one that it does not trust."""


def untouched(status: int, text: str) -> bool:
    """Whether the request was surely not done, so that another member may be asked."""
    return status == UNTOUCHED or _BUSY in text or text == _NO_LEADER


def elsewhere(status: int) -> bool:
    """Whether another member is likely to know better."""
    return status in _UNKNOWN or status == UNTOUCHED


def logged_out(status: int, text: str) -> bool:
    """Whether a new login helps: nothing was done."""
    known = (*_OLD_LOGIN, *_NO_LOGIN)
    return status in {UNAUTHENTICATED, INVALID} and any(each in text for each in known)


def no_login_needed(status: int, text: str) -> bool:
    """Whether this is the answer to a login where everybody may do everything."""
    return status == NOT_READY and "authentication is not enabled" in text


def ticket(settings: Settings, answer: Answer) -> bytes:
    """What a login was answered by; raises if there is none."""
    status, text = answer.status or OK, answer.text
    if no_login_needed(status, text):
        return b""
    if status != OK or answer.body is None:
        raise failed(settings, status, text)
    return messages.ticket(answer.body)


def failed(settings: Settings, status: int, encoded: str) -> LocknutError:
    """The error that a status stands for."""
    text, place = unquote(encoded), settings.place
    if status in {UNAUTHENTICATED, NOT_ALLOWED, INVALID} and (about := _login(settings, text)):
        return ConfigurationError(about, backend=NAME)
    if status == NOT_FOUND and _LEASE in text:
        return LeaseGone(f"the etcd at {place} said: {text}", backend=NAME)
    if status in _UNKNOWN or untouched(status, text):
        return BackendUnavailable(f"no answer from the etcd at {place}: {text}", backend=NAME)
    if _FULL in text:
        message = (
            f"the etcd at {place} is full and takes no more writes ({text}): compact and "
            "defragment it, then `etcdctl alarm disarm`"
        )
        return BackendError(message, backend=NAME)
    return BackendError(f"the etcd at {place} said: {text or status}", backend=NAME)


def _login(settings: Settings, text: str) -> str:
    """What is wrong with who we are; empty if it is something else."""
    place, user = settings.place, settings.username
    if any(each in text for each in _NO_LOGIN):
        return f"the etcd at {place} wants a user and a password: etcd://user:password@host"
    if _WRONG_LOGIN in text:
        return f"the etcd at {place} does not accept this user and password: {text}"
    if "permission denied" in text:
        return (
            f"the user {user!r} lacks a right in the etcd at {place}: give it one with "
            "`etcdctl role grant-permission ROLE readwrite --prefix KEY`"
        )
    return text if any(each in text for each in _OLD_LOGIN) else ""


def unreachable(settings: Settings, error: BaseException) -> LocknutError:
    """There was no answer. A fault that trying again does not mend is not an outage."""
    if isinstance(error, LocknutError):
        return error
    place = settings.place
    if isinstance(error, ssl.SSLCertVerificationError):
        message = (
            f"the certificate of {place} was not accepted: {error.verify_message}; "
            "ssl_ca_certs names the authorities to trust"
        )
        return BackendError(message, backend=NAME)
    if isinstance(error, ssl.SSLError) and (error.reason or "").endswith(_OURS_WANTED):
        message = f"{place} wants a certificate of ours: ssl_certfile and ssl_keyfile"
        return BackendError(message, backend=NAME)
    why = str(error) or type(error).__name__
    if isinstance(error, TimeoutError):
        limit = f"{settings.limit:g} s" if not hurried() else "the caller's time"
        why = f"nothing within {limit}"
    hint = f" ({error.__notes__[0]})" if getattr(error, "__notes__", None) else ""
    return BackendUnavailable(f"no answer from the etcd at {place}: {why}{hint}", backend=NAME)


def doubt(settings: Settings, error: BaseException, *, connected: bool = True) -> None:
    """Say what may be behind it that a connection was not even greeted."""
    if isinstance(error, ConnectionRefusedError | LocknutError):
        return
    if settings.tls is None:
        if connected:
            error.add_note("does it want TLS? Then the URL begins with etcd+tls://")
    elif not connected:
        error.add_note("does it speak TLS at this port?")
    else:  # it hung up right behind the handshake
        error.add_note("it may want a certificate of ours: ssl_certfile and ssl_keyfile")
