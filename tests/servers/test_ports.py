"""A reserved port is nobody else's, and yet one can be served there again and again."""

from __future__ import annotations

import errno
import socket

import pytest

from tests.servers.ports import HOST, Ports


def test_it_is_served_by_number_and_never_found_free() -> None:
    ports = Ports()
    one, another = ports.reserve(2)
    assert one != another
    for _ in range(2):
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((HOST, one))
        with pytest.raises(OSError, match="in use") as refused, socket.socket() as looking:
            looking.bind((HOST, one))
        assert refused.value.errno == errno.EADDRINUSE
        with socket.create_server((HOST, one)), socket.create_connection((HOST, one)):
            pass
    ports.close()
    with socket.socket() as looking:
        looking.bind((HOST, another))
