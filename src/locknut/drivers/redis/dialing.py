"""How a blocking socket to one server is opened, and for how long it may block."""

from __future__ import annotations

import socket
import ssl
import struct

from locknut.drivers.redis.recovery import keep_alive
from locknut.drivers.redis.settings import Settings
from locknut.runtimes import sockets
from locknut.runtimes.deadlines import time_left


def open_socket(settings: Settings) -> socket.socket:
    if settings.path:
        sock = sockets.open_socket(socket.AF_UNIX)
        try:
            sock.settimeout(time_left(settings.connect_limit))
            sock.connect(settings.path)
        except OSError:
            sock.close()
            raise
    else:
        address = settings.host, settings.port
        sock = sockets.connected(address, time_left(settings.connect_limit))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        keep_alive(sock)
    if settings.tls is not None:
        sock = sockets.encrypted(sock, settings.tls, settings.host)
    else:
        sock.settimeout(None)
    set_limit(sock, settings.limit)
    return sock


def set_limit(sock: socket.socket, limit: float) -> None:
    if isinstance(sock, ssl.SSLSocket):
        sock.settimeout(limit)
        return
    # The kernel keeps the time limit: Python's own costs a poll() before every call.
    seconds = int(limit)
    packed = struct.pack("ll", seconds, max(1, int((limit - seconds) * 1_000_000)))
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, packed)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, packed)
