"""What a memcached answers: one reply after the other, in the order of the commands."""

from __future__ import annotations

from typing import Final, NamedTuple

from locknut.drivers.memcached.settings import Settings
from locknut.errors import BackendError, BackendUnavailable, ConfigurationError, LocknutError

LONGEST_LINE: Final = 65536
"""No answer of ours has a longer line: whatever sends one is not a memcached."""
REFUSALS: Final = (b"ERROR", b"CLIENT_ERROR", b"SERVER_ERROR")
BUSY: Final = b"BUSY"
"""It goes through its items already, for itself or for another client."""
BADCLASS: Final = b"BADCLASS"
"""It does not know this way to go through them."""
_LAST: Final = (b"END", BUSY, BADCLASS, *REFUSALS)


class Reply(NamedTuple):
    """One line, taken apart, and the value that came with it."""

    code: bytes
    """HD done, VA a value, EN or NF not found, NS not stored, EX another CAS id, ..."""
    words: list[bytes]
    data: bytes = b""

    @property
    def cas(self) -> int:
        """The CAS id, where it was asked for; 0 where the server has none."""
        for word in self.words:
            if word[:1] == b"c":
                return int(word[1:])
        return 0

    def flag(self, letter: bytes) -> bytes:
        """What stands behind a letter; empty if the letter is not there."""
        return next((word[1:] for word in self.words if word[:1] == letter), b"")

    @property
    def refusal(self) -> str:
        """What is wrong, in the server's words; empty if nothing is."""
        if self.code not in REFUSALS:
            return ""
        return b" ".join((self.code, *self.words)).decode(errors="replace")


class Replies:
    """Bytes as they come in, and replies as they are complete."""

    def __init__(self) -> None:
        self._unread = b""

    def feed(self, data: bytes) -> None:
        self._unread += data

    def only_cas(self, data: bytes) -> int:
        """The CAS id of a success, if that is all there is to be read. 0: it has to be fed."""
        if data[:4] == b"HD c" and data[-1:] == b"\n" and data.count(b"\n") == 1:
            return 0 if self._unread else int(data[4:-2])
        return 0

    def next(self) -> Reply | None:
        """The next one; None while it is not there as a whole."""
        line, end, rest = self._unread.partition(b"\n")  # a dump's lines have no \r before it
        if not end:
            if len(self._unread) > LONGEST_LINE:
                raise ConnectionAbortedError("it does not answer like a memcached")
            return None
        code, *words = line.removesuffix(b"\r").split(b" ")
        if code != b"VA":
            self._unread = rest
            return Reply(code, words)
        size = int(words[0])
        if len(rest) < size + 2:
            return None
        self._unread = rest[size + 2 :]
        return Reply(code, words[1:], rest[:size])


def is_last(reply: Reply) -> bool:
    """Whether a list of lines, as `stats` or a dump gives it, ends with this one."""
    return reply.code in _LAST


def failed(settings: Settings, reply: Reply) -> LocknutError:
    """The error that a refusal stands for: it was not done."""
    place, said = settings.place, reply.refusal
    if "unauthenticated" in said or "authentication" in said:
        message = f"the memcached at {place} wants another user or password: {said}"
        return ConfigurationError(message, backend="memcached")
    if "out of memory" in said:
        message = (
            f"the memcached at {place} is full and does not evict: {said}; give it more memory"
        )
        return BackendError(message, backend="memcached")
    return BackendError(f"the memcached at {place} said: {said}", backend="memcached")


def unreachable(settings: Settings, error: BaseException) -> BackendUnavailable:
    """There was no answer, so what was asked may have been done."""
    what = str(error) or type(error).__name__
    return BackendUnavailable(f"no answer from {settings.place}: {what}", backend="memcached")
