"""The connection's own rules, with a server that says what is hard to make a real one say."""

from __future__ import annotations

from time import process_time

import pytest

from locknut.drivers.etcd import hpack
from locknut.drivers.etcd.calls import Answer, framed
from locknut.drivers.etcd.http2 import UNTOUCHED, Http2, frame
from locknut.drivers.etcd.protobuf import fields, inner, number, signed, text, varint

DATA, HEADERS, RESET, SETTINGS, PING, GOAWAY, WINDOW, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
OPENED = hpack.packed([(b":status", b"200"), (b"content-type", b"application/grpc")])
DONE = hpack.packed([(b"grpc-status", b"0"), (b"grpc-message", b"")])
Frame = tuple[int, int, int, bytes]


def frames(data: bytes) -> list[Frame]:
    """What was sent, taken apart."""
    data = data.removeprefix(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
    found = []
    while data:
        size = int.from_bytes(data[:3], "big")
        found.append((data[3], data[4], int.from_bytes(data[5:9], "big"), data[9 : 9 + size]))
        data = data[9 + size :]
    return found


def setting(what: int, value: int) -> bytes:
    return frame(SETTINGS, 0, 0, what.to_bytes(2, "big") + value.to_bytes(4, "big"))


def greeted(*settings: bytes) -> Http2:
    """A connection on which the server has said this, or nothing special."""
    http2 = Http2()
    http2.feed(b"".join(settings) or frame(SETTINGS, 0, 0))
    http2.take_output()
    return http2


def ask(http2: Http2, message: bytes = b"hello") -> Answer:
    answer = Answer()
    http2.open(answer, b"head", message)
    return answer


def reply(stream: int, message: bytes) -> bytes:
    head, end = frame(HEADERS, 4, stream, OPENED), frame(HEADERS, 5, stream, DONE)
    return head + frame(DATA, 0, stream, framed(message)) + end


def sent_data(http2: Http2) -> list[tuple[int, int, int]]:
    """Of each piece: its stream, its size, and whether it was the last."""
    found = frames(http2.take_output())
    return [(stream, len(data), flags) for kind, flags, stream, data in found if kind == DATA]


def test_the_first_words_come_before_any_answer_to_the_server() -> None:
    """Behind TLS a server speaks first: thanking it before we greet it ends the connection."""
    http2 = Http2()
    http2.feed(frame(SETTINGS, 0, 0))
    ask(http2)
    output = http2.take_output()
    assert output.startswith(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
    kinds = [(kind, flags) for kind, flags, _, _ in frames(output)]
    assert kinds == [(SETTINGS, 0), (WINDOW, 0), (SETTINGS, 1), (HEADERS, 4), (DATA, 1)]


def test_an_answer_may_come_in_any_pieces() -> None:
    data = frame(SETTINGS, 0, 0) + reply(1, b"x" * 300) + reply(3, b"y")
    for size in (1, 2, 7, 64, len(data)):
        http2 = Http2()
        one, other = ask(http2), ask(http2)
        for at in range(0, len(data), size):
            http2.feed(data[at : at + size])
        assert (one.status, one.body) == (0, b"x" * 300)
        assert (other.status, other.body) == (0, b"y")
        assert not http2.streams


def test_a_long_answer_takes_time_by_its_length() -> None:
    """As that of a list of very many locks: it comes in thousands of pieces."""
    http2, message = greeted(), bytes(48 << 20)
    answer, data, piece = ask(http2), framed(message), 16384
    http2.feed(frame(HEADERS, 4, 1, OPENED))
    began = process_time()
    for at in range(0, len(data), piece):
        http2.feed(frame(DATA, 0, 1, data[at : at + piece]))
    taken = process_time() - began
    http2.feed(frame(HEADERS, 5, 1, DONE))
    assert answer.body == message
    assert taken < 5, "of the processor; a tenth of that is much"


def test_heads_may_be_continued_padded_and_of_a_priority() -> None:
    http2 = greeted()
    answer = ask(http2)
    http2.feed(frame(HEADERS, 0x20 | 0x8, 1, b"\2" + b"\0" * 5 + OPENED[:4] + b"\0\0"))
    http2.feed(frame(CONTINUATION, 0, 1, OPENED[4:9]) + frame(CONTINUATION, 4, 1, OPENED[9:]))
    http2.feed(frame(DATA, 0x8, 1, b"\3" + framed(b"padded") + b"\0\0\0"))
    http2.feed(frame(0xBE, 0, 1, b"of another version") + frame(HEADERS, 5, 1, DONE))
    assert (answer.status, answer.body) == (0, b"padded")


def test_a_failure_comes_without_a_message() -> None:
    http2 = greeted()
    answer, other = ask(http2), ask(http2)
    failed = hpack.packed([(b":status", b"200"), (b"grpc-status", b"5"), (b"grpc-message", b"no")])
    http2.feed(frame(HEADERS, 5, 1, failed))
    assert (answer.status, answer.text, answer.body) == (5, "no", None)
    http2.feed(frame(HEADERS, 5, 3, hpack.packed([(b":status", b"502")])))
    assert (other.status, other.text) == (14, "HTTP status 502")


def test_a_status_that_there_is_not_is_no_status() -> None:
    """-1 is our own word for what was surely not done."""
    http2 = greeted()
    for stream, code in ((1, b"-1"), (3, b""), (5, b"x")):
        answer = ask(http2)
        http2.feed(frame(HEADERS, 5, stream, hpack.packed([(b"grpc-status", code)])))
        assert answer.status == 2


def test_what_the_server_has_no_room_for_waits() -> None:
    """For a request longer than its windows, the rest is sent as they open: of both kinds."""
    http2 = greeted()
    answer = ask(http2, b"x" * 100_000)
    first = sent_data(http2)
    assert sum(size for _, size, _ in first) == 65535
    assert all(size <= 16384 and not last for _, size, last in first)
    second = ask(http2, b"")
    assert sent_data(http2) == []
    http2.feed(frame(WINDOW, 0, 1, (50_000).to_bytes(4, "big")))
    assert sent_data(http2) == [], "the connection's own window is closed as well"
    http2.feed(frame(WINDOW, 0, 0, (50_000).to_bytes(4, "big")))
    rest = sent_data(http2)
    assert [stream for stream, _, _ in rest] == [1, 1, 1, 3]
    assert sum(size for _, size, _ in rest) == 100_005 - 65535 + 5
    assert [last for _, _, last in rest] == [0, 0, 1, 1]
    http2.feed(reply(1, b"a") + reply(3, b"b"))
    assert (answer.body, second.body) == (b"a", b"b")


def test_a_change_of_the_first_window_counts_for_open_streams() -> None:
    http2 = greeted(setting(4, 10))
    ask(http2, b"x" * 100)
    assert sent_data(http2) == [(1, 10, 0)]
    http2.feed(setting(4, 50))
    assert sent_data(http2) == [(1, 40, 0)]
    http2.feed(setting(4, 20))
    assert sent_data(http2) == []
    http2.feed(setting(4, 1000))
    assert sent_data(http2) == [(1, 55, 1)]


def test_no_more_streams_than_the_server_wants() -> None:
    http2 = greeted(setting(3, 2))
    answers = [ask(http2) for _ in range(4)]
    assert [stream for stream, _, _ in sent_data(http2)] == [1, 3]
    http2.cancel(answers[2])
    http2.feed(reply(1, b"1"))
    assert [stream for stream, _, _ in sent_data(http2)] == [5]
    http2.feed(reply(5, b"4"))
    assert (answers[0].body, answers[3].body, answers[2].status) == (b"1", b"4", None)


def test_a_server_that_leaves_says_what_it_has_not_begun() -> None:
    http2 = greeted(setting(3, 2))
    begun, not_begun, not_sent = ask(http2), ask(http2), ask(http2)
    http2.feed(frame(GOAWAY, 0, 0, (1).to_bytes(4, "big") + b"\0\0\0\0bye"))
    assert http2.leaving
    assert (begun.status, not_begun.status, not_sent.status) == (None, UNTOUCHED, UNTOUCHED)
    http2.feed(reply(1, b"still"))
    assert begun.body == b"still"


def test_a_reset_is_in_doubt_unless_it_was_refused() -> None:
    http2 = greeted()
    reset, refused, going_on = ask(http2), ask(http2), ask(http2)
    http2.feed(frame(RESET, 0, 1, (2).to_bytes(4, "big")))
    http2.feed(frame(RESET, 0, 3, (7).to_bytes(4, "big")))
    assert (reset.status, refused.status, going_on.status) == (1, UNTOUCHED, None)


def test_what_begins_a_connection_goes_with_the_first_request() -> None:
    http2 = Http2()
    ask(http2)
    kinds = [kind for kind, _, _, _ in frames(http2.take_output(thanks=False))]
    assert kinds == [SETTINGS, WINDOW, HEADERS, DATA]
    http2.feed(frame(SETTINGS, 0, 0))
    assert http2.presses, "a server may hang up where its settings are not confirmed soon"
    assert frames(http2.take_output(thanks=False)) == [(SETTINGS, 1, 0, b"")]


def test_a_cancelled_call_is_told_to_the_server_and_its_answer_dropped() -> None:
    http2 = greeted()
    left, other = ask(http2), ask(http2)
    http2.take_output()
    http2.cancel(left)
    assert frames(http2.take_output()) == [(RESET, 0, 1, (8).to_bytes(4, "big"))]
    http2.feed(reply(1, b"late") + reply(3, b"other"))
    assert (left.status, left.body, other.body) == (None, None, b"other")


def test_a_sign_of_life_is_given_when_asked_for_and_need_not_go_at_once() -> None:
    http2 = greeted()
    http2.feed(frame(PING, 0, 0, b"12345678"))
    assert http2.has_output
    assert not http2.presses
    assert http2.take_output(thanks=False) == b""
    ask(http2)
    assert [kind for kind, _, _, _ in frames(http2.take_output(thanks=False))] == [HEADERS, DATA]
    assert frames(http2.take_output()) == [(PING, 1, 0, b"12345678")]
    http2.ping()
    assert http2.presses
    ((_, _, _, payload),) = frames(http2.take_output())
    http2.feed(frame(PING, 1, 0, payload))
    assert not http2.has_output


def test_the_window_is_opened_again_after_very_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("locknut.drivers.etcd.http2._REPLENISH", 1000)
    http2 = greeted()
    answer = ask(http2)
    http2.take_output()
    http2.feed(frame(HEADERS, 4, 1, OPENED) + frame(DATA, 0, 1, framed(b"x" * 1500)))
    widened = [(kind, stream, int.from_bytes(data, "big"))
               for kind, _, stream, data in frames(http2.take_output())]  # fmt: skip
    assert widened == [(WINDOW, 0, 1505), (WINDOW, 1, 1505)]
    assert answer.body == b"x" * 1500


NONSENSE = {
    "another protocol": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "no greeting": frame(HEADERS, 5, 1, DONE),
    "a frame that is too long": frame(SETTINGS, 0, 0) + b"\x01\0\0\0\0\0\0\0\1",
    "a head that was to be remembered": frame(SETTINGS, 0, 0) + frame(HEADERS, 5, 1, b"\xbe"),
    "heads that are cut short": frame(SETTINGS, 0, 0) + frame(HEADERS, 5, 1, DONE[:-3]),
    "a text that ends within a code": frame(SETTINGS, 0, 0)
    + frame(HEADERS, 5, 1, b"\0\x01x\x81\0"),
    "a compressed message": frame(SETTINGS, 0, 0) + frame(DATA, 0, 1, b"\1\0\0\0\0"),
    "a setting that is cut short": frame(SETTINGS, 0, 0, b"\0\3\0"),
    "a reset without a reason": frame(SETTINGS, 0, 0) + frame(RESET, 0, 1, b"\0\0"),
    "a leave that names nothing": frame(SETTINGS, 0, 0) + frame(GOAWAY, 0, 0),
    "a window without a size": frame(SETTINGS, 0, 0) + frame(WINDOW, 0, 0, b"\1"),
    "heads without end": frame(SETTINGS, 0, 0)
    + frame(HEADERS, 0, 1, b"\0" * 16384)
    + frame(CONTINUATION, 0, 1, b"\0" * 16384) * 64,
    "padding that is not there": frame(SETTINGS, 0, 0) + frame(DATA, 8, 1),
}


@pytest.mark.parametrize("nonsense", NONSENSE)
def test_nonsense_is_refused(nonsense: str) -> None:
    http2 = Http2()
    ask(http2)
    with pytest.raises((ValueError, OSError)):
        http2.feed(NONSENSE[nonsense])


# RFC 7541, appendix C.4 and C.6: texts in the code that servers use.
CODED = {
    b"www.example.com": "f1e3c2e5f23a6ba0ab90f4ff",
    b"no-cache": "a8eb10649cbf",
    b"custom-value": "25a849e95bb8e8b4bf",
    b"Mon, 21 Oct 2013 20:13:21 GMT": "d07abe941054d444a8200595040b8166e082a62d1bff",
    b"foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1": (
        "94e7821dd7f2e6c7b335dfdfcd5b3960d5af27087f3672c1ab270fb5291f9587316065c003ed4ee5b1063d5007"
    ),
}


@pytest.mark.parametrize("plain", CODED)
def test_a_coded_text_is_read(plain: bytes) -> None:
    coded = bytes.fromhex(CODED[plain])
    block = b"\0\x01x" + bytes([0x80 | len(coded)]) + coded
    assert hpack.Heads().unpack(b"\x20\x88" + block) == {b":status": b"200", b"x": plain}


def test_long_heads_pass() -> None:
    headers = [(b"x" * size, b"y" * size) for size in (1, 126, 127, 128, 255, 5000)]
    assert hpack.Heads().unpack(hpack.packed(headers)) == dict(headers)


@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, 2**32, 2**63 - 1, -1, -(2**63)])
def test_numbers_come_back(value: int) -> None:
    packed = bytes([1 << 3]) + varint(value)
    ((field, found),) = fields(packed)
    assert isinstance(found, int)
    assert (field, signed(found)) == (1, value)


def test_fields_come_back_and_unknown_kinds_are_passed_over() -> None:
    packed = number(1, 5) + text(2, b"bytes") + inner(64, b"") + b"\x19" + b"8 bytes." + b"\x25four"
    assert [*fields(packed)] == [(1, 5), (2, b"bytes"), (64, b"")]
    assert number(1, 0) == text(2, b"") == b""
    for size in range(1, len(text(2, b"bytes"))):
        with pytest.raises(ValueError, match="cut short"):
            [*fields(text(2, b"bytes")[:size])]
    with pytest.raises(ValueError, match="too long"):
        [*fields(b"\x08" + b"\xff" * 12)]
