"""The few words of RESP that are spoken here, and what the server's errors mean."""

from __future__ import annotations

from typing import Any, Final

from hiredis import Reader, ReplyError

from holdfast.backends.redis.settings import Settings
from holdfast.errors import BackendError, BackendUnavailable

NOTHING: Final = object()
"""What a reader gives while an answer is not complete."""
_NOT_NOW: Final = frozenset({"LOADING", "BUSY", "MASTERDOWN", "TRYAGAIN", "CLUSTERDOWN"})
"""The server is there and will answer, later: asking again is right."""
_ADVICE: Final = {
    "NOAUTH": "the server wants a password: redis://user:password@host",
    "WRONGPASS": "the server refused this user and password",
    "NOPERM": "the server's ACL does not allow this user what a lock needs",
    "READONLY": "this server is a read-only replica: connect to its master",
    "OOM": "the server is out of memory and refuses to write",
    "MISCONF": "the server cannot save its data and refuses to write",
    "WRONGTYPE": "a key of this lock holds something that is not a lock's",
}


def reader() -> Reader:
    return Reader(notEnoughData=NOTHING)


def pack(*words: bytes) -> bytes:
    """One command."""
    parts = [b"*%d\r\n" % len(words)]
    parts += [b"$%d\r\n%b\r\n" % (len(word), word) for word in words]
    return b"".join(parts)


def greeting(settings: Settings) -> list[bytes]:
    """What a blocking connection says first: often nothing."""
    said = []
    if settings.password:
        user = [settings.username.encode()] if settings.username else []
        said.append(pack(b"AUTH", *user, settings.password.encode()))
    if settings.db:
        said.append(pack(b"SELECT", b"%d" % settings.db))
    return said


def failed(error: ReplyError) -> BackendError:
    """The server said no: in words that say what to do."""
    text = str(error)
    code = text.partition(" ")[0]
    if code in _NOT_NOW:
        return BackendUnavailable(f"the server cannot answer now: {text}", backend="redis")
    for known, advice in _ADVICE.items():
        if code == known or f" {known} " in text:  # before 7.0 a script's error begins with ERR
            return BackendError(f"{advice} ({text})", backend="redis")
    return BackendError(f"the server said: {text}", backend="redis")


def unscripted(reply: Any) -> bool:
    """Whether the server does not know the script (any more): after a restart or SCRIPT FLUSH."""
    return isinstance(reply, ReplyError) and str(reply).startswith("NOSCRIPT")


def unreachable(settings: Settings, error: BaseException) -> BackendUnavailable:
    late = isinstance(error, TimeoutError | BlockingIOError)  # the latter is the kernel's limit
    why = f"nothing within {settings.limit:g} s" if late else str(error) or type(error).__name__
    return BackendUnavailable(f"no answer from {settings.place}: {why}", backend="redis")
