"""A process that holds, waits, forks and dies on command: one JSON line in, one or more out."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from typing import Any

from locknut.core.values import Claim, Granted, Mode, Renewal
from locknut.runtimes.loop import LoopRuntime
from locknut.runtimes.threads import ThreadRuntime
from tests.backends.file.driving import acquire, attempt, claim, engine_in, release, run


def say(what: Any) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


class Worker:
    def __init__(self, directory: str) -> None:
        self.engine = engine_in(directory)
        self.backend = self.engine.blocking(ThreadRuntime())
        self.claims: dict[str, Claim] = {}

    def made(self, order: dict[str, Any]) -> Claim:
        settings = {k: v for k, v in order.items() if k not in ("do", "name", "key", "timeout")}
        if "mode" in settings:
            settings["mode"] = Mode(settings["mode"])
        name = order.get("name", "x")
        if name not in self.claims:
            self.claims[name] = claim(order.get("key", "ns:a"), **settings)
        return self.claims[name]

    def attempt(self, order: dict[str, Any]) -> int | None:
        answer = attempt(self.backend, self.made(order))
        return answer.raw if isinstance(answer, Granted) else None

    def acquire(self, order: dict[str, Any]) -> int | None:
        wanted = self.made(order)
        return run(
            acquire(self.backend, wanted, order.get("timeout", 30.0), lambda: say("waiting"))
        )

    def acquire_async(self, order: dict[str, Any]) -> int | None:
        async def main() -> int | None:
            backend, wanted = self.engine.asyncio(LoopRuntime()), self.made(order)
            timeout = order.get("timeout", 30.0)
            return await acquire(backend, wanted, timeout, lambda: say("waiting"))

        return asyncio.run(main())

    def release(self, order: dict[str, Any]) -> bool:
        return release(self.backend, self.claims.pop(order.get("name", "x")))

    def renew(self, order: dict[str, Any]) -> str:
        (answer,) = run(self.backend.renew([self.claims[order.get("name", "x")]]))
        return answer.value if isinstance(answer, Renewal) else type(answer).__name__

    def detach(self, order: dict[str, Any]) -> str | None:
        wanted = self.claims[order.get("name", "x")]
        return wanted.id if run(self.backend.detach(wanted, order["ttl"])) else None

    def attach(self, order: dict[str, Any]) -> int | None:
        new = claim()
        detached = new._replace(id=order["detached"], mode=Mode(order.get("mode", "exclusive")))
        self.claims["x"] = new._replace(mode=detached.mode)
        answer = run(self.backend.attach(detached, self.claims["x"]))
        return answer.raw if answer is not None else None

    def fork(self, order: dict[str, Any]) -> int:
        """A child that lives on until it is killed; it may first do something to the inherited."""
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reader)
            if order.get("release"):
                release(self.backend, self.claims["x"])
            os.write(writer, b"!")
            os.close(writer)
            os.close(1)
            os.close(0)
            while True:
                signal.pause()
        os.close(writer)
        os.read(reader, 1)
        os.close(reader)
        return pid

    def descriptors(self, _: dict[str, Any]) -> int:
        return len(os.listdir("/proc/self/fd"))


def main() -> None:
    worker = Worker(sys.argv[1])
    for text in sys.stdin:
        order = json.loads(text)
        say(getattr(worker, order["do"])(order))


if __name__ == "__main__":
    main()
