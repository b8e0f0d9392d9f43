"""What lies where in a lock file (layout HF1): the bytes that are written, and those only locked.

One file per name. The data is small and never decides who holds: it carries the fence, and tells
people who is who. What decides are kernel locks on bytes far behind the data, so whatever a dead
process held or waited for is gone with it.

    data                                        bytes that are only locked
    0       the last grant       (a record)     SLOT + i   slot i: a reader, a permit, a co-owner
    256     the grave: not 0 = dead file        META       a short mutex around shared changes
    264     a note of who broke it (`burial`)
    512     the key this file is for            OWNERS     read-locked by every co-owner
    4096    who waits, by ticket (64 records)   READERS    read-locked by every reader
    20480   the slots            (records)      LOCK       the lock
                                                QUEUE + t  the ticket of a claim that came at t (ns)

The record of the last grant and the slots change only under LOCK for writing, or under LOCK for
reading and META (in a semaphore's file: META). A detached hold is a slot whose record says until
when; the first record sums up until when there can be any.

The number of a grant, its raw fence, goes by the clock (`number_after`), so a file that is removed
takes no number along.
"""

from __future__ import annotations

import struct
import time
from functools import lru_cache
from typing import Final, NamedTuple
from zlib import crc32

from locknut.backends.file.digests import blake2b

RECORD: Final = 256
GRAVE: Final = RECORD
HEAD: Final = RECORD + 8
KEY: Final = 512
KEY_ROOM: Final = 3584
WAITERS: Final = 4096
WAITER_ROOM: Final = 64
SLOTS: Final = WAITERS + WAITER_ROOM * RECORD

SLOT: Final = 2**20
MAX_SLOTS: Final = 2**16
META: Final = 2**30 - 3
OWNERS: Final = 2**30 - 2
READERS: Final = 2**30 - 1
LOCK: Final = 2**30
QUEUE: Final = 2**30 + 1

RAW_STEP: Final = 16_000
"""Nanoseconds in one step of the raw fence. Fast machines make a pair of grant and release in less
and wait for the rest (docs/performance.md); with half of it fences would pass 2^53 in 2041."""
_MOST_RAW: Final = 2**62
_LOOKS: Final = 2000
"""How often we look at a clock that stands still before we count on: longer than one step takes."""

ALIVE: Final = bytes(8)
"""The grave of a file in use. Of a broken lock it has the number of the last grant ..."""
GONE: Final = 1
REMOVED: Final = GONE.to_bytes(8, "little")
"""... and this, lower than any grant's, when nobody needed the file, or its record was lost."""

NOBODY: Final = 0
EXCLUSIVE: Final = 1
SHARED: Final = 2
PERMIT: Final = 3
OWNED: Final = 4
WAITING: Final = 5

BROKEN: Final = 1
"""Flag of a slot: its hold was ended by force. In the first record: there may be such slots."""

_MAGIC = b"HF1\0"
_FIELDS = struct.Struct("<4sBBxxIIIQQQ8s16s16s")
_TIMES = struct.Struct("<QQ")
_NUMBERS = struct.Struct("<QQQ")
_TIMES_AT = struct.calcsize("<4sBBxxIII")
_CRC = struct.Struct("<I")
_pack_times = _TIMES.pack
_pack_crc = _CRC.pack
_TEXT_ROOM = RECORD - _FIELDS.size - _CRC.size
_NOBODY_ELSE = bytes(16)
_ROOMS = (40, 40, 56, _TEXT_ROOM - 40 - 40 - 56 - 3)


class Record(NamedTuple):
    """One grant, or one waiter: numbers that decide, then words for people."""

    mode: int = NOBODY
    flags: int = 0
    pid: int = 0
    pid_space: int = 0
    """The inode of the pid namespace: the pid means nothing in another one."""
    permits: int = 0
    raw: int = 0
    """The raw fence; the ticket, in a waiter's record."""
    since: int = 0
    """Microseconds since the epoch."""
    until: int = 0
    """Nanoseconds of this boot's clock: when the detached hold ends. 0: nothing is detached."""
    boot: bytes = bytes(8)
    detached: bytes = _NOBODY_ELSE
    """The digest of the claim id that may attach this detached hold."""
    owner_digest: bytes = _NOBODY_ELSE
    words: bytes = b""

    def texts(self) -> tuple[str, str, str, str]:
        """Host, who, label and owner, as far as they fitted."""
        host, who, label, owner, *_ = (*self.words.split(b"\x1f"), b"", b"", b"", b"")
        return (_text(host), _text(who), _text(label), _text(owner))


BLANK: Final = Record()


def encode(record: Record) -> bytes:
    body = _FIELDS.pack(_MAGIC, *record[:-1]) + record[-1].ljust(_TEXT_ROOM, b"\0")
    return body + _CRC.pack(crc32(body))


def parts(record: Record) -> tuple[bytes, bytes]:
    """What of this record comes before and after its number and time: for `assemble`, once each."""
    whole = encode(record)
    return whole[:_TIMES_AT], whole[_TIMES_AT + _TIMES.size : -_CRC.size]


def assemble(before: bytes, raw: int, since: int, behind: bytes) -> bytes:
    """The same as `encode`, at half the price: an uncontended grant is little else."""
    body = before + _pack_times(raw, since) + behind
    return body + _pack_crc(crc32(body))


def decode(data: bytes) -> Record | None:
    """The record, or None where it was torn, lost with the power, or never written."""
    if not sound(data):
        return None
    fields = _FIELDS.unpack_from(data)
    return Record._make((*fields[1:], data[_FIELDS.size : RECORD - 4].rstrip(b"\0")))


def numbers(data: bytes) -> tuple[int, int] | None:
    """Of a record only the number of its grant, and until when there may be detached holds."""
    if not sound(data):
        return None
    raw, _, until = _NUMBERS.unpack_from(data, _TIMES_AT)
    return raw, until


def number(data: bytes) -> int:
    """The same number where nothing depends on it; 0 where nothing was written."""
    return _NUMBERS.unpack_from(data, _TIMES_AT)[0] if len(data) == RECORD else 0


def sound(data: bytes) -> bool:
    return (
        len(data) >= RECORD
        and data[:4] == _MAGIC
        and _CRC.unpack_from(data, RECORD - 4)[0] == crc32(data[: RECORD - 4])
        and _NUMBERS.unpack_from(data, _TIMES_AT)[0] < _MOST_RAW  # no clock ever says that
    )


def grave(raw: int) -> bytes:
    return (raw or GONE).to_bytes(8, "little")


def heir(raw: int, key: str) -> bytes:
    """A new file that carries the number of a broken one over."""
    return (encode(Record(raw=raw)) + ALIVE).ljust(KEY, b"\0") + encode_key(key)


def foreign(data: bytes) -> bool:
    """Whether these first bytes of a file were written by somebody else: never write over them."""
    start = data[:4]
    return start != _MAGIC and any(start)


@lru_cache(maxsize=512)
def words(host: str, who: str, label: str, owner: str) -> bytes:
    """What people see of a holder, cut to the room there is."""
    texts = (host, who, label, owner)
    data = [_clean(text)[:room] for text, room in zip(texts, _ROOMS, strict=True)]
    unused = sum(_ROOMS) - sum(map(len, data))
    data[2] = _clean(label)[: _ROOMS[2] + unused]  # it may have the room that the others leave
    return b"\x1f".join(data)


def digest(text: str) -> bytes:
    """Return what is stored for a claim id or an owner. Whoever knows an id can release the claim,
    so ids themselves are never stored.
    """
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def encode_key(key: str) -> bytes:
    data = key.encode("utf-8", "surrogatepass")
    return struct.pack("<I", len(data)) + data


def decode_key(data: bytes) -> str | None:
    if len(data) < 4:
        return None
    (size,) = struct.unpack_from("<I", data)
    if not 0 < size <= len(data) - 4:
        return None
    try:
        return data[4 : 4 + size].decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return None


def _clean(text: str) -> bytes:
    return text.replace("\x1f", " ").replace("\0", " ").encode("utf-8", "replace")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "ignore")


def number_after(last: int, now: int) -> int:
    """The clock's step, or the next one: the count never overtakes the clock, so that a new file
    can begin at the clock. By count where the clock was set back (S11).

    In a new file (`last` is 0) it is the next step: another file of this name may have been removed
    within this one.
    """
    raw = now // RAW_STEP
    last = last or raw
    if raw == last:
        for _ in range(_LOOKS):
            raw = time.time_ns() // RAW_STEP
            if raw != last:
                break
    return max(raw, last + 1)


def ahead_of_clock(raw: int) -> bool:
    """Whether a new file would begin below this number."""
    return raw >= time.time_ns() // RAW_STEP
