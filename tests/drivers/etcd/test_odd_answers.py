"""What becomes of a command, in both colours, if a server answers as none should, or hangs up."""

from __future__ import annotations

import socket
import threading
from collections import deque
from collections.abc import Iterator

import pytest

from locknut.drivers.etcd import hpack
from locknut.drivers.etcd.http2 import frame
from locknut.errors import BackendError, BackendUnavailable
from tests.drivers.etcd.conftest import Colour
from tests.drivers.etcd.test_http2 import DATA, DONE, GOAWAY, HEADERS, OPENED, RESET, SETTINGS
from tests.drivers.etcd.test_http2 import reply as answered

GREETING = frame(SETTINGS, 0, 0)
WHOLE = answered(1, b"the message")


class Scripted:
    """Answers the first request on each connection by the next of its answers, and hangs up."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"etcd://127.0.0.1:{self._listening.getsockname()[1]}"
        self.answers: deque[bytes] = deque()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            wire, _ = self._listening.accept()
            with wire:
                asked = b""
                while not _is_request(asked):
                    got = wire.recv(65536)
                    if not got:
                        return
                    asked += got
                wire.sendall(GREETING + self.answers.popleft())

    def close(self) -> None:
        socket.create_connection(self._listening.getsockname()).close()
        self._thread.join()
        self._listening.close()


def _is_request(asked: bytes) -> bool:
    """Whether its last frame is there: it has no content, but the five bytes before that."""
    return asked.endswith(frame(DATA, 1, 1, bytes(5)))


@pytest.fixture
def scripted() -> Iterator[Scripted]:
    made = Scripted()
    yield made
    made.close()


def ask(colour: Colour, scripted: Scripted, *answers: bytes) -> bytes:
    scripted.answers.extend(answers)
    link = colour.open(scripted.url)
    return colour.run(link.report("/some/question"))  # type: ignore[attr-defined, no-any-return]


def test_an_answer_that_is_cut_at_any_byte_is_none(colour: Colour, scripted: Scripted) -> None:
    for size in range(len(WHOLE)):
        with pytest.raises(BackendUnavailable):
            ask(colour, scripted, WHOLE[:size])
    assert ask(colour, scripted, WHOLE) == b"the message"


@pytest.mark.parametrize(
    "untouched",
    [
        frame(GOAWAY, 0, 0, bytes(8)),
        frame(RESET, 0, 1, (7).to_bytes(4, "big")),
    ],
    ids=["it leaves", "it refuses"],
)
def test_what_was_not_begun_is_asked_once_more(
    colour: Colour, scripted: Scripted, untouched: bytes
) -> None:
    assert ask(colour, scripted, untouched, WHOLE) == b"the message"


DOUBTFUL = {
    "it leaves after it has begun": frame(GOAWAY, 0, 0, (1).to_bytes(4, "big") + bytes(4)),
    "it gives up in the middle": frame(RESET, 0, 1, (2).to_bytes(4, "big")),
    "a success that says nothing": frame(HEADERS, 4, 1, OPENED) + frame(HEADERS, 5, 1, DONE),
    "a head that is all there is": frame(HEADERS, 5, 1, hpack.packed([(b":status", b"200")])),
    "an answer without an end": frame(HEADERS, 4, 1, OPENED) + frame(DATA, 1, 1, bytes(5)),
    "another's error page": frame(HEADERS, 4, 1, hpack.packed([(b":status", b"503")])),
}


@pytest.mark.parametrize("answer", DOUBTFUL)
def test_what_may_have_been_done_is_not_asked_again(
    colour: Colour, scripted: Scripted, answer: str
) -> None:
    with pytest.raises(BackendUnavailable):
        ask(colour, scripted, DOUBTFUL[answer])
    assert not scripted.answers


def test_a_failure_that_is_all_there_is(colour: Colour, scripted: Scripted) -> None:
    told = [(b":status", b"200"), (b"grpc-status", b"9"), (b"grpc-message", b"not%20so")]
    with pytest.raises(BackendError, match="not so") as raised:
        ask(colour, scripted, frame(HEADERS, 5, 1, hpack.packed(told)))
    assert not isinstance(raised.value, BackendUnavailable), "it was an answer"
