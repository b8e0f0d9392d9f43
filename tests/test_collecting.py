"""The check after each test sees a finalizer that waits, and says where."""

from __future__ import annotations

import gc
import threading

import pytest

from tests import collecting


def test_a_finalizer_that_waits_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collecting, "PATIENCE", 0.1)
    begun, go_on = threading.Event(), threading.Event()

    class Waits:
        def __init__(self) -> None:
            self.itself = self

        def __del__(self) -> None:
            begun.set()
            go_on.wait()

    def collect() -> None:
        Waits()
        gc.collect(0)

    collecting.check()
    thread = threading.Thread(target=collect)
    thread.start()
    assert begun.wait(60)
    try:
        with pytest.raises(pytest.fail.Exception, match="__del__"):
            collecting.check()
    finally:
        go_on.set()
        thread.join()
    collecting.check()
