"""A contender in a process of its own, which runs a slice whenever it is told to.

The parent has the only say in who runs when; a contender that is not running sleeps on its pipe.
`python -m benchmarks.slices module:function '{...}'` makes the contender from the JSON and then
answers each number of repetitions on its input with one line of JSON.
"""

from __future__ import annotations

import importlib
import json
import os
import select
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks import placing

ROOT = Path(__file__).resolve().parent.parent
PATIENCE = 60.0
ENDING = 10.0
"""Seconds for a slice, and for a process to end by itself."""

Sample = dict[str, float]
Slice = Callable[[int], Sample]


class Contender:
    """One process that runs slices of one thing; with `core`, on that core alone, and with `root`
    by the code of another tree.
    """

    def __init__(
        self,
        target: str,
        options: dict[str, Any],
        python: str = sys.executable,
        core: int | None = None,
        patience: float = PATIENCE,
        root: Path = ROOT,
    ):
        self._patience = patience
        command = [python, "-m", "benchmarks.slices", target, json.dumps(options)]
        places = [str(root / "src"), str(root)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(places)}
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=root,
        )
        self.keep_on(core)

    def keep_on(self, core: int | None) -> None:
        placing.keep_on(core, self._process.pid)

    def run(self, count: int) -> Sample:
        """One slice of `count` repetitions."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{count}\n")
        self._process.stdin.flush()
        if not select.select([self._process.stdout], [], [], self._patience)[0]:
            self._process.kill()
            raise TimeoutError(f"a slice was not over after {self._patience:.0f} s")
        line = self._process.stdout.readline()
        if not line:
            code = self._process.wait()
            raise RuntimeError(f"a contender ended with {code}")
        told = json.loads(line)
        sample: Sample | None = told.get("sample")
        if sample is None:
            raise RuntimeError(told["problem"])
        return sample

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.communicate(timeout=ENDING)  # closes its input: it has nothing left to do
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


def serve(target: str, options: str) -> None:
    """In the child: make the contender, then run a slice for every line."""
    module, _, name = target.partition(":")
    try:
        run: Slice = getattr(importlib.import_module(module), name)(**json.loads(options))
        for line in sys.stdin:
            print(json.dumps({"sample": run(int(line))}), flush=True)
    except Exception as problem:  # noqa: BLE001  # whatever a peer may raise
        print(json.dumps({"problem": f"{type(problem).__name__}: {problem}"}), flush=True)
    os._exit(0)  # whatever threads a peer has left behind


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2])
