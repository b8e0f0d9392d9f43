"""A loop that keeps its sockets to itself (uvloop), and a child that lives on: the parent's end is
seen by the server, and the child's copies say nothing and hit nobody.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from types import SimpleNamespace

import pytest

from locknut.runtimes import sockets
from tests.forks.child import in_child
from tests.servers.processes import until
from tests.servers.redis import RedisServer
from tests.servers.redlock import RedlockNodes

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

PARENT = """
import asyncio, gc, os, sys, time, warnings
import uvloop
from locknut import aio
warnings.simplefilter("ignore")

async def main():
    async with aio.connect(sys.argv[1]) as locks, locks.lock("x", ttl=60):
        child = os.fork()
        if child == 0:
            os.write(1, f"{os.getpid()}\\n".encode())
            gc.collect()
            time.sleep(600)
        await locks.ping()  # its own connection still works
        os.write(1, b"parent\\n")  # whole: `print` may write the end of a line by itself
        await asyncio.sleep(600)

with asyncio.Runner(loop_factory=getattr(sys.modules[sys.argv[2]], "new_event_loop")) as runner:
    runner.run(main())
"""


def others(server: RedisServer) -> int:
    """How many connections it has besides the one that asks."""
    told = server.ask("CLIENT", "LIST")
    assert isinstance(told, bytes)
    return len(told.splitlines()) - 1


@pytest.mark.redis
@pytest.mark.parametrize("engine", ["redis", "redlock"])
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_the_server_sees_the_end_of_a_parent_whose_child_lives(loop: str, engine: str) -> None:
    with RedlockNodes(3) as nodes:

        def connections() -> int:
            return sum(map(others, nodes.nodes))

        url = nodes.url if engine == "redlock" else nodes.nodes[0].url
        command = [sys.executable, "-c", PARENT, url, loop]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
            assert parent.stdout is not None
            child = 0
            try:
                told = {parent.stdout.readline().strip() for _ in range(2)}
                child = int(next(each for each in told if each != "parent"))
                assert connections() > 0
                parent.kill()
                parent.wait()
                until(lambda: connections() == 0, "the child keeps a connection of its parent")
            finally:
                parent.kill()
                if child:
                    os.kill(child, signal.SIGKILL)


def test_another_file_that_has_the_number_by_now_is_left_alone() -> None:
    """The loop closed it without a word, and the number was given to a pipe."""
    user = type("User", (), {})()
    one, other = socket.socketpair()
    number = one.fileno()
    sockets.note_transport(SimpleNamespace(fileno=one.fileno), user)
    one.close()
    reading, writing = os.pipe()
    assert number in (reading, writing)

    def check() -> None:
        os.write(writing, b"heard")
        assert os.read(reading, 5) == b"heard"

    try:
        in_child(check)
    finally:
        for each in (reading, writing):
            os.close(each)
        other.close()


def test_the_number_of_what_is_let_go_stays_taken() -> None:
    """Or what the child opens would get it, and the copy of the parent's loop still knows it."""
    user = type("User", (), {})()
    one, other = socket.socketpair()
    sockets.note_transport(SimpleNamespace(fileno=one.fileno), user)

    def check() -> None:
        assert os.readlink(f"/proc/self/fd/{one.fileno()}") == os.devnull
        os.write(one.fileno(), b"to nobody")

    with one, other:
        in_child(check)
        other.setblocking(False)
        with pytest.raises(BlockingIOError):
            other.recv(1)
        one.send(b"x")
        assert other.recv(1) == b"x"
