"""Statements that the server keeps for a connection, so that it reads them once: PyMySQL has none.

Only such as write, and answer with an OK: it comes as to any other statement.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final

from pymysql.constants import COMMAND, FIELD_TYPE

_PREPARED: Final = struct.Struct("<xIHH")
"""After the first byte: the number of the statement, its columns, and its marks."""
_EXECUTE: Final = struct.Struct("<IBI")
_NUMBER: Final = struct.Struct("<q")
_SHORT: Final = 251
"""From here on the length of a value does not fit into its first byte."""


def prepare(driver: Any, statement: str) -> int:
    """Have the server keep it; by which number it will know it."""
    driver._execute_command(COMMAND.COM_STMT_PREPARE, statement)
    number, columns, marks = _PREPARED.unpack_from(driver._read_packet().get_all_data())
    for many in (marks, columns):
        for _ in range(many + 1 if many else 0):  # and one that says it was the last
            driver._read_packet()
    return int(number)


def execute(driver: Any, number: int, values: Sequence[int | bytes]) -> None:
    """Send it; the answer is still to be read."""
    kinds, packed = bytearray(), bytearray()
    for value in values:
        if isinstance(value, int):
            kinds += bytes((FIELD_TYPE.LONGLONG, 0))
            packed += _NUMBER.pack(value)
        else:
            kinds += bytes((FIELD_TYPE.BLOB, 0))
            packed += _length(len(value)) + value
    none_is_null = bytes((len(values) + 7) // 8)
    head = _EXECUTE.pack(number, 0, 1)
    driver._execute_command(COMMAND.COM_STMT_EXECUTE, head + none_is_null + b"\1" + kinds + packed)


def _length(size: int) -> bytes:
    if size < _SHORT:
        return bytes((size,))
    return (
        b"\xfc" + struct.pack("<H", size) if size < 1 << 16 else b"\xfe" + struct.pack("<Q", size)
    )
