"""One exchange with a server: statements out, answers in, whatever the colour.

An exchange is a generator that yields what it waits for, `READ` or `READ | WRITE`, and is sent what
is ready. It never blocks. Statements of one exchange are one transaction, and one round trip.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple, TypeVar

from psycopg import pq

T = TypeVar("T")
READ: Final = 1
WRITE: Final = 2
Steps = Generator[int, int, T]
Row = tuple[Any, ...]
_PARAMETER = re.compile(r"(?<!:):([a-z_]+)")
_GOOD: Final = (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK)
_TYPES: Final = {bool: 16, bytes: 17, int: 20, str: 25}
_LISTS: Final = {bytes: 1001, int: 1016, str: 1009}
"""The numbers that PostgreSQL's types have: bool, bytea, bigint, text; and lists of them."""
_READ: Final[Mapping[int, Callable[[bytes], object]]] = {
    16: lambda text: text == b"t",
    17: lambda text: bytes.fromhex(text[2:].decode()),
    20: int,
    23: int,
}


class Refused(Exception):
    """The server said no; the session is in order, and the transaction undone."""

    def __init__(self, result: pq.abc.PGresult):
        code = result.error_field(pq.DiagnosticField.SQLSTATE)
        text = result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY)
        self.code = (code or b"").decode()
        super().__init__((text or b"no reason given").decode(errors="replace"))


class Statement(NamedTuple):
    """One statement as libpq wants it: `$1` in place of the first name, and the names in order."""

    text: bytes
    names: tuple[str, ...]
    id: bytes
    """What it is called once it is prepared."""


class Call(NamedTuple):
    """A statement and its arguments."""

    statement: Statement
    arguments: Mapping[str, object]


@cache
def statement(text: str) -> Statement:
    """A statement that has its arguments as `:name`."""
    names = tuple(dict.fromkeys(_PARAMETER.findall(text)))
    numbered = _PARAMETER.sub(lambda found: f"${names.index(found[1]) + 1}", text)
    return Statement(numbered.encode(), names, b"locknut_%x" % (hash(text) & 0xFFFFFFFFFFFF))


BEGIN: Final = statement("BEGIN ISOLATION LEVEL READ COMMITTED")
COMMIT: Final = statement("COMMIT")
ROLLBACK: Final = b"ROLLBACK"


def prepared(
    connection: pq.abc.PGconn, known: set[bytes], calls: Sequence[Call], *, apart: bool = False
) -> Steps[list[list[Row]]]:
    """Ask by statements that the server keeps for this session; new ones are prepared first.
    `apart`: each is a transaction of its own, committed before the next one begins.
    """
    if len(calls) == 1 and calls[0].statement.id in known:
        call = calls[0]
        values, formats, _ = _packed(call)
        connection.send_query_prepared(call.statement.id, values, formats)
        return [(yield from _only(connection))]
    connection.enter_pipeline_mode()
    sent: list[bytes | None] = []
    """Of each result to come: what it prepares; None, if it is an answer."""
    for call in calls:
        asked = call.statement
        values, formats, types = _packed(call)
        if asked.id not in known and asked.id not in sent:
            connection.send_prepare(asked.id, asked.text, types)
            sent.append(asked.id)
        connection.send_query_prepared(asked.id, values, formats)
        sent.append(None)
        if apart:
            connection.pipeline_sync()
    if not apart:
        connection.pipeline_sync()
    results = yield from _piped(connection, len(calls) if apart else 1)
    for result, new in zip(results, sent, strict=True):
        if new is not None and result.status == pq.ExecStatus.COMMAND_OK:
            known.add(new)  # it stays, though the transaction may have been undone
    _ensure_good(results)
    return [_rows(each) for each, new in zip(results, sent, strict=True) if new is None]


def framed(connection: pq.abc.PGconn, calls: Sequence[Call]) -> Steps[list[list[Row]]]:
    """Ask where the next transaction may come to another session of the server: nothing is left
    behind there, and nothing is expected, not even how it isolates.
    """
    connection.enter_pipeline_mode()
    for call in (Call(BEGIN, {}), *calls, Call(COMMIT, {})):
        values, formats, types = _packed(call)
        connection.send_query_params(call.statement.text, values, types, formats)
    connection.pipeline_sync()
    results = yield from _piped(connection)
    if connection.transaction_status != pq.TransactionStatus.IDLE:
        connection.send_query(ROLLBACK)
        yield from _only(connection)
    _ensure_good(results)
    return [_rows(each) for each in results[1:-1]]


def plain(connection: pq.abc.PGconn, text: str) -> Steps[list[Row]]:
    """One or several statements without arguments; the rows of the last."""
    connection.send_query(text.encode())
    return (yield from _only(connection))


def _only(connection: pq.abc.PGconn) -> Steps[list[Row]]:
    yield from _flushed(connection)
    rows: list[Row] = []
    failed: pq.abc.PGresult | None = None
    while (result := (yield from _next(connection))) is not None:
        if result.status in _GOOD:
            rows = _rows(result)
        else:
            failed = failed or result
    if failed is not None:
        raise Refused(failed)
    return rows


def _piped(connection: pq.abc.PGconn, transactions: int = 1) -> Steps[list[pq.abc.PGresult]]:
    """The results up to the end of the pipeline, which is so many transactions long."""
    yield from _flushed(connection)
    results: list[pq.abc.PGresult] = []
    while True:
        result = yield from _next(connection)
        if result is None:
            continue
        if result.status == pq.ExecStatus.PIPELINE_SYNC:
            transactions -= 1
            if not transactions:
                break
            continue
        results.append(result)
        if connection.status != pq.ConnStatus.OK:
            raise Refused(result)  # nothing more will come
    connection.exit_pipeline_mode()
    return results


def _ensure_good(results: Sequence[pq.abc.PGresult]) -> None:
    for result in results:
        if result.status not in _GOOD:
            raise Refused(result)


def _flushed(connection: pq.abc.PGconn) -> Steps[None]:
    while connection.flush():
        if (yield READ | WRITE) & READ:
            connection.consume_input()


def _next(connection: pq.abc.PGconn) -> Steps[pq.abc.PGresult | None]:
    while connection.is_busy():
        yield READ
        connection.consume_input()
    return connection.get_result()


def _packed(call: Call) -> tuple[list[bytes] | None, list[int] | None, list[int] | None]:
    """The arguments, whether each is binary, and of which type it is."""
    if not call.statement.names:
        return None, None, None
    values: list[bytes] = []
    formats, types = [], []
    for name in call.statement.names:
        value: Any = call.arguments[name]
        kind = type(value)
        if kind is bytes:
            values.append(value)
        elif kind is list:
            values.append(_listed(value))
        elif kind is bool:
            values.append(b"t" if value else b"f")
        else:
            values.append(str(value).encode())
        formats.append(int(kind is bytes))
        types.append(_LISTS[type(value[0])] if kind is list else _TYPES[kind])
    return values, formats, types


def _listed(values: list[Any]) -> bytes:
    """Of numbers, of bytes, or of ids, which are hexadecimal: nothing in them has to be quoted."""
    texts = [f'"\\\\x{each.hex()}"' if type(each) is bytes else str(each) for each in values]
    return f"{{{','.join(texts)}}}".encode()


def _rows(result: pq.abc.PGresult) -> list[Row]:
    columns = range(result.nfields)
    read = [_READ.get(result.ftype(column), bytes.decode) for column in columns]
    rows: list[Row] = []
    for number in range(result.ntuples):
        values = [result.get_value(number, column) for column in columns]
        cells = zip(read, values, strict=True)
        rows.append(tuple(None if value is None else cell(value) for cell, value in cells))
    return rows
