"""How the file engine's tests drive it: claims, the core's loop in small, other processes."""

from __future__ import annotations

import asyncio
import gc
import itertools
import json
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from locknut.backends.file import engine as engines
from locknut.backends.file import open_engine
from locknut.backends.file.engine import FileEngine
from locknut.core.ports import Backend, Signal
from locknut.core.values import Answer, Busy, Claim, Granted, Mode
from locknut.runtimes.clock import now
from locknut.runtimes.loop import LoopRuntime
from locknut.runtimes.threads import ThreadSignal

T = TypeVar("T")
DEADLINE = 30.0
_ROOT = Path(__file__).parents[3]
_ids = itertools.count()


@dataclass
class Place:
    """What `open_engine` reads of a URL."""

    path: str
    netloc: str = ""
    options: dict[str, str] = field(default_factory=dict)


def engine_in(directory: Path | str, **options: str) -> FileEngine:
    engines._recipes.clear()  # each one as if in a process of its own
    engine = open_engine(Place(str(directory), options=options))
    assert isinstance(engine, FileEngine)
    return engine


def run(work: Coroutine[Any, Any, T]) -> T:
    """A command that must not suspend."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    raise AssertionError("suspended")


def claim(key: str = "ns:a", **settings: Any) -> Claim:
    return Claim(key, f"{os.getpid()}-{next(_ids)}", **settings)


def reader(key: str = "ns:a", **settings: Any) -> Claim:
    return claim(key, mode=Mode.SHARED, **settings)


def permit(permits: int, key: str = "ns:a", **settings: Any) -> Claim:
    return claim(key, mode=Mode.PERMIT, permits=permits, **settings)


def granted(answer: Answer | None) -> int:
    assert isinstance(answer, Granted), answer
    return answer.raw


def attempt(backend: Backend, wanted: Claim) -> Answer:
    return run(backend.attempt(wanted, 0.0))


def take(backend: Backend, wanted: Claim) -> int:
    return granted(attempt(backend, wanted))


def busy(backend: Backend, wanted: Claim) -> bool:
    return isinstance(attempt(backend, wanted), Busy)


def release(backend: Backend, held: Claim) -> bool:
    return run(backend.release(held))


async def acquire(
    backend: Backend,
    wanted: Claim,
    timeout: float = DEADLINE,
    on_wait: Callable[[], None] = lambda: None,
) -> int | None:
    """The core's loop in small: ask, watch, ask again; withdraw at the end of patience."""
    until = now() + timeout
    answer = await backend.attempt(wanted, 0.0)
    if isinstance(answer, Granted):
        return answer.raw
    with backend.watch(wanted, signal) as bell:
        while True:
            answer = await backend.attempt(wanted, 0.0)
            if isinstance(answer, Granted):
                return answer.raw
            on_wait()
            on_wait = _nothing
            if now() >= until:
                break
            await bell.wait(min(until, now() + answer.retry_in))
    await backend.release(wanted)
    return None


def signal() -> Signal:
    """A plain one, for those who wait without a bell."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return ThreadSignal()
    runtime = LoopRuntime()
    assert runtime.loop is not None
    return runtime.signal()


def _nothing() -> None: ...


def open_descriptors() -> set[tuple[str, str]]:
    """Of this process, each with what it is open to: what others close meanwhile, be it a thread of
    an earlier test, hides nothing that was opened and not closed. Of sockets only the kind that
    bells are: that thread may be of another engine, and reach for its server just then.
    """
    gc.collect()
    found = set()
    for each in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # this listing itself
            found.add((each, os.readlink(f"/proc/self/fd/{each}")))
    bells = _datagram_sockets()
    return {(fd, what) for fd, what in found if not what.startswith("socket:") or what in bells}


def _datagram_sockets() -> set[str]:
    """The unix ones, as links to them are written: by their inode."""
    rows = [row.split() for row in Path("/proc/net/unix").read_text().splitlines()[1:]]
    return {f"socket:[{row[6]}]" for row in rows if int(row[4], 16) == socket.SOCK_DGRAM}


def program(
    name: str, *arguments: Path | str, stdin: int | None = None, stderr: int | None = None
) -> subprocess.Popen[bytes]:
    """Another Python process that runs a module of this folder."""
    command = [sys.executable, "-m", f"{__package__}.{name}", *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": f"{_ROOT}{os.pathsep}{_ROOT / 'src'}"}
    return subprocess.Popen(
        command, env=environment, stdin=stdin, stdout=subprocess.PIPE, stderr=stderr
    )


class Child:
    """Another process on the same directory; it does what `child.py` understands."""

    def __init__(self, directory: Path | str) -> None:
        self.process = program("child", directory, stdin=subprocess.PIPE)
        self._buffer = b""

    @property
    def pid(self) -> int:
        return self.process.pid

    def send(self, do: str, **settings: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"do": do, **settings}).encode() + b"\n")
        self.process.stdin.flush()

    def hear(self, timeout: float = DEADLINE) -> Any:
        """The next line it says."""
        assert self.process.stdout is not None
        fd, until = self.process.stdout.fileno(), time.monotonic() + timeout
        while b"\n" not in self._buffer:
            ready = select.select([fd], [], [], max(0.0, until - time.monotonic()))[0]
            assert ready, "the child says nothing"
            read = os.read(fd, 65536)
            assert read, "the child is gone"
            self._buffer += read
        said, _, self._buffer = self._buffer.partition(b"\n")
        return json.loads(said)

    def silent(self) -> bool:
        """Whether it has said nothing until now."""
        assert self.process.stdout is not None
        return not self._buffer and not select.select([self.process.stdout.fileno()], [], [], 0)[0]

    def ask(self, do: str, **settings: Any) -> Any:
        self.send(do, **settings)
        return self.hear()

    def wait_in_line(self, name: str = "x", **settings: Any) -> None:
        assert self.ask("acquire", name=name, **settings) == "waiting"

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def end(self) -> None:
        if self.process.poll() is None:
            self.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()
