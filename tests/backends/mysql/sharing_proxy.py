"""A proxy that shares connections: each packet of a client goes to another one at the server.

It does what ProxySQL and MaxScale do with multiplexing: only a transaction stays where it began.
Passwords are not checked.
"""

from __future__ import annotations

import itertools
import os
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any

import pymysql
from pymysql.connections import Connection
from pymysql.constants import CLIENT, COMMAND, SERVER_STATUS

from tests.servers.databases import Database

OFFERED = (
    CLIENT.LONG_PASSWORD
    | CLIENT.LONG_FLAG
    | CLIENT.CONNECT_WITH_DB
    | CLIENT.PROTOCOL_41
    | CLIENT.TRANSACTIONS
    | CLIENT.SECURE_CONNECTION
    | CLIENT.MULTI_STATEMENTS
    | CLIENT.MULTI_RESULTS
    | CLIENT.PLUGIN_AUTH
)
FINE = b"\x00\x00\x00\x02\x00\x00\x00"


class Recorded(Connection):  # type: ignore[misc]
    """Keeps what the server sent, so that it can be passed on as it came."""

    said: list[bytes]

    def _read_bytes(self, num_bytes: int) -> bytes:
        data: bytes = super()._read_bytes(num_bytes)
        self.said.append(data)
        return data

    def pass_on(self, query: bytes) -> bytes:
        self.said = []
        with suppress(pymysql.MySQLError):
            self._execute_command(COMMAND.COM_QUERY, query)
            self._read_query_result()
            while self._result.has_next:
                self.next_result()
        return b"".join(self.said)


@contextmanager
def shared(database: Database) -> Iterator[int]:
    """The port of such a proxy."""
    listener = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                threading.Thread(target=serve, args=(client, database), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    with closing(listener):
        yield listener.getsockname()[1]


def connect(database: Database) -> Recorded:
    Recorded.said = []
    made: Any = Recorded(
        unix_socket=str(database.server.socket),  # type: ignore[attr-defined]
        user="root",
        database=database.name,
        autocommit=True,
        client_flag=CLIENT.MULTI_STATEMENTS,
    )
    found: Recorded = made
    return found


def serve(client: socket.socket, database: Database) -> None:
    gone = OSError, EOFError, pymysql.MySQLError  # the client, or with its test the database
    with (
        client,
        suppress(*gone),
        closing(connect(database)) as one,
        closing(connect(database)) as two,
    ):
        turns = itertools.cycle([one, two])
        greet(client)
        chosen = next(turns)
        while True:
            _, packet = receive(client)
            if packet[0] != COMMAND.COM_QUERY:
                return
            if not chosen.server_status & SERVER_STATUS.SERVER_STATUS_IN_TRANS:
                chosen = next(turns)
            client.sendall(chosen.pass_on(packet[1:]))


def greet(client: socket.socket) -> None:
    salt = os.urandom(20).replace(b"\0", b"1")
    hello = b"\x0a8.0.0-shared\x00" + struct.pack("<I", 1) + salt[:8] + b"\x00"
    hello += struct.pack("<HBHHB", OFFERED & 0xFFFF, 45, 2, OFFERED >> 16, 21) + bytes(10)
    hello += salt[8:] + b"\x00mysql_native_password\x00"
    send(client, 0, hello)
    number, _ = receive(client)
    send(client, number + 1, FINE)


def send(client: socket.socket, number: int, packet: bytes) -> None:
    client.sendall(struct.pack("<I", len(packet))[:3] + bytes([number]) + packet)


def receive(client: socket.socket) -> tuple[int, bytes]:
    head = exactly(client, 4)
    return head[3], exactly(client, int.from_bytes(head[:3], "little"))


def exactly(client: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = client.recv(size - len(data))
        if not more:
            raise EOFError
        data += more
    return data
