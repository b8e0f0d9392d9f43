"""The few words of RESP that are spoken here, and what the server's errors mean."""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Collection, Sequence
from typing import Any, Final, NamedTuple

from hiredis import Reader, ReplyError

from locknut.drivers.redis import lua_scripts
from locknut.drivers.redis.settings import Settings
from locknut.errors import BackendError, BackendUnavailable
from locknut.runtimes.deadlines import hurried

NOTHING: Final = object()
"""What a reader gives while an answer is not complete."""
_NOT_HERE: Final = frozenset({"LOADING", "MASTERDOWN", "READONLY", "UNBLOCKED", "NOREPLICAS"})
"""What a server says that is not the master (any more), or is cut off from its replicas, so that
another may be by now: its connections are of no use."""
_NOT_NOW: Final = _NOT_HERE | {"BUSY", "TRYAGAIN", "CLUSTERDOWN", "MISCONF"}
"""The server is there and will answer, later, or another will: asking again is right."""
_CROWDED: Final = "max number of clients reached"
_WAITS_AT_A_REPLICA: Final = "WAIT cannot be used with replica instances"
_IN_BETWEEN: Final = "non local key in a cluster node"
"""What a script runs into when its slot is on the way to another node: half of it is there."""
_ADVICE: Final = {
    "NOAUTH": "the server wants a password: redis://user:password@host",
    "WRONGPASS": "the server refused this user and password",
    "OOM": "the server is out of memory and refuses to write",
    "WRONGTYPE": "a key of this lock holds something that is not a lock's",
    "MOVED": "this server is a node of a cluster: connect with redis+cluster://",
}


_DENIED: Final = re.compile(
    r"NOPERM|ACL failure in script|The user executing the script can't|no permissions to "
)
"""How servers say that the ACL forbids something: to us, or to one of our scripts."""


def reader() -> Reader:
    return Reader(notEnoughData=NOTHING)


def pack(*words: bytes) -> bytes:
    """One command."""
    parts = [b"*%d\r\n" % len(words)]
    parts += [b"$%d\r\n%b\r\n" % (len(word), word) for word in words]
    return b"".join(parts)


class Welcome(NamedTuple):
    """What a server says of itself when it is greeted."""

    role: str = ""
    """`master` or `replica`; a Sentinel has none."""
    evicts: str = ""
    """How it makes room when its memory is full, if it does, and if we may know."""


def greeting(settings: Settings, protocol: bytes, *, curious: bool) -> list[bytes]:
    """What a connection says first; a curious one asks whether keys may be evicted."""
    words = [b"HELLO", protocol]
    if settings.username or settings.password:  # some users need none: never another instead
        user = (settings.username or "default").encode()
        words += [b"AUTH", user, settings.password.encode()]
    said = [pack(*words)]
    if settings.db:
        said.append(pack(b"SELECT", b"%d" % settings.db))
    if curious:
        said.append(pack(b"INFO", b"memory"))
    return said


def welcome(replies: Sequence[Any], *, curious: bool) -> Welcome:
    """The answers to a greeting; an ACL may forbid the curious part, and that is all right."""
    memory = replies[-1] if curious else b""
    for reply in replies[:-1] if curious else replies:
        if isinstance(reply, ReplyError) and "unknown command" in str(reply):
            raise BackendError(
                f"the server needs to be Redis 6.2 or newer: {said(reply)}", backend="redis"
            )
        if isinstance(reply, ReplyError):
            raise failed(reply)
    hello = replies[0]
    facts = hello if isinstance(hello, dict) else dict(zip(hello[::2], hello[1::2], strict=True))
    return Welcome(facts.get(b"role", b"").decode(), _policy(memory))


def _policy(memory: Any) -> str:
    if not isinstance(memory, bytes):
        return ""
    _, found, rest = memory.partition(b"maxmemory_policy:")
    policy = rest.split(None, 1)[0].decode() if found else ""
    return "" if policy == "noeviction" else policy


def said(error: ReplyError) -> str:
    """The server's own words. It repeats what a command that it does not know was sent with: for
    HELLO that is the password.
    """
    return str(error).partition(", with args beginning with")[0]


def failed(error: ReplyError) -> BackendError:
    """The server said no: in words that say what to do."""
    text = said(error)
    passing = (_IN_BETWEEN, _WAITS_AT_A_REPLICA, _CROWDED)
    if any(each in text for each in passing) or _says(text, _NOT_NOW):
        return BackendUnavailable(f"the server cannot answer now: {text}", backend="redis")
    if _DENIED.search(text):
        return BackendError(_denied(text), backend="redis")
    for known, advice in _ADVICE.items():
        if _says(text, {known}):
            return BackendError(f"{advice} ({text})", backend="redis")
    return BackendError(f"the server said: {text}", backend="redis")


def _denied(text: str) -> str:
    """Which permission is missing, as far as the server says."""
    command = re.search(r"'([\w|-]+)' command", text)
    place = re.search(r"(?:script: |f_)(\w{40})(?:, on|\):) @user_script:(\d+)", text)
    if command is not None:
        missing = f"+{command[1].lower()}"
    elif place is not None and "command or" in text:  # before 7.2 it only says where
        missing = f"+{lua_scripts.called_at(place[1], int(place[2]))}"
    elif "channel" in text:
        missing = "&locknut:*"
    else:
        missing = "~namespace:*" if "key" in text else "that docs/engines/redis.md lists"
    return f"the server's ACL forbids what a lock needs: it needs the permission {missing} ({text})"


def elsewhere(reply: Any) -> bool:
    """Whether this is what a server says that is not the master (any more)."""
    if not isinstance(reply, ReplyError):
        return False
    return _WAITS_AT_A_REPLICA in str(reply) or _says(str(reply), _NOT_HERE)


def cut_off(reply: Any) -> bool:
    """Whether this is a cluster's node that does not reach the others, or misses some of them."""
    return isinstance(reply, ReplyError) and _says(str(reply), {"CLUSTERDOWN"})


def _says(text: str, codes: Collection[str]) -> bool:
    """An error begins with its code; before 7.0 a script's begins with ERR, and has it inside."""
    code = text.partition(" ")[0]
    return code in codes or (code == "ERR" and any(f" {each} " in text for each in codes))


def unscripted(reply: Any) -> bool:
    """Whether the server does not know the script (any more): after a restart or SCRIPT FLUSH."""
    return isinstance(reply, ReplyError) and str(reply).startswith("NOSCRIPT")


def unreachable(settings: Settings, error: BaseException) -> BackendError:
    """The error for a missing answer. A fault that trying again does not mend is not an outage: it
    is raised at once.
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        message = f"the certificate of {settings.place} was not accepted: {error.verify_message}"
        return BackendError(message, backend="redis")
    if isinstance(error, ssl.SSLError) and "CERTIFICATE_REQUIRED" in (error.reason or ""):
        message = f"{settings.place} wants a certificate of ours: ssl_certfile and ssl_keyfile"
        return BackendError(message, backend="redis")
    limit = f"{settings.limit:g} s" if not hurried() else "the caller's time"
    why = f"nothing within {limit}" if timed_out(error) else str(error) or type(error).__name__
    hint = f" ({error.__notes__[0]})" if getattr(error, "__notes__", None) else ""
    return BackendUnavailable(f"no answer from {settings.place}: {why}{hint}", backend="redis")


def doubt(settings: Settings, error: BaseException) -> None:
    """Say what may be behind it that a connection was not even greeted."""
    if settings.tls is None:
        return
    if timed_out(error):
        hint = "does it speak TLS at this port?"
    elif isinstance(error, ConnectionRefusedError | ssl.SSLError | socket.gaierror):
        return
    else:  # it hung up right behind the handshake
        hint = "it may want a certificate of ours: ssl_certfile and ssl_keyfile"
    if isinstance(error, BackendUnavailable):
        error.message += f" ({hint})"
    else:
        error.add_note(hint)


def timed_out(error: BaseException | None) -> bool:
    """Whether nothing came within the time limit, by Python, the kernel, or an error's text."""
    if isinstance(error, BackendUnavailable):
        error = error.__cause__
    return isinstance(error, TimeoutError | BlockingIOError)
