"""Frames and URLs of a bridge: any bytes are frames or an error; credentials are never shown."""

from __future__ import annotations

import contextlib
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pika")

from pika import spec

from amqp10msg.basic import BasicProperties, encode_content_header
from amqp10msg.net.bridge.records import Ledger
from amqp10msg.net.ends.basic_frames import (
    DELIVER,
    Content,
    FrameError,
    FrameReader,
    ack,
    decode_method,
    method,
    nack,
    publish,
)
from amqp10msg.net.ends.entries import read_quarantine
from amqp10msg.net.ends.files import Quarantine
from amqp10msg.net.ends.terms import Outcome, SourceDelivery
from amqp10msg.net.ends.urls import parse_url
from amqp10msg.testing import basic_properties

NAMES = st.text(max_size=60).filter(lambda text: len(text.encode("utf-8", "replace")) <= 255)


@given(basic_properties(), st.binary(max_size=9_000), NAMES, NAMES, st.integers(1, 500))
def test_published_frames_can_be_read(
    properties: BasicProperties,
    body: bytes,
    exchange: str,
    key: str,
    step: int,
) -> None:
    header = encode_content_header(properties, len(body))
    most = max(4096, len(header) + 8)
    try:
        octets = b"".join(publish(1, exchange, key, header, body, most))
    except UnicodeEncodeError:
        return  # a surrogate that stands for no byte: no name of a delivery has one
    reader = FrameReader(most)

    found = []
    for at in range(0, len(octets), step):
        found += list(reader.feed(octets[at : at + step]))

    (kind, channel, arguments), *rest = found
    assert (1, 1, b"\0\x3c\0\x28\0\0") == (kind, channel, arguments[:6])
    tag = b"\1c" + struct.pack(">QB", 7, 1)
    content = Content(DELIVER, tag + arguments[6:-1])
    complete = [content.add(kind, payload, len(body)) for kind, _, payload in rest]
    assert [False] * (len(rest) - 1) + [True] == complete
    assert (header, body, (7, True, exchange, key)) == (
        content.header,
        content.body,
        content.decode_deliver(),
    )


@given(st.binary(max_size=300), st.integers(1, 40))
def test_random_bytes_are_frames_or_an_error(octets: bytes, step: int) -> None:
    reader = FrameReader(4096)
    content = Content(DELIVER, octets[:20])
    try:
        for at in range(0, len(octets), step):
            for kind, _, payload in reader.feed(octets[at : at + step]):
                if kind == 1:
                    decode_method(payload)
                else:
                    content.add(kind, payload, 100)
        content.decode_deliver()
        content.decode_returned()
    except FrameError:
        pass


@given(st.sampled_from(sorted(spec.methods)), st.binary(max_size=80))
def test_any_method_is_decoded_or_raises_frame_error(index: int, arguments: bytes) -> None:
    with contextlib.suppress(FrameError):
        decode_method(index.to_bytes(4, "big") + arguments)


@pytest.mark.parametrize(
    "octets, said",
    [
        (b"\1\0\1\0\0\0\1x!", "0x21"),
        (b"\1\0\1\0\1\0\0", ""),
        (b"\1\0\1\0\1\0\0\0", "65536 bytes exceeds the negotiated frame-max, 4096"),
        (b"AMQP\0\0\x09\1", "another version"),
        (
            b"HTTP/1.1 400",
            r"does not use AMQP 0-9-1: its first bytes are b'HTTP/1.1': this is HTTP",
        ),
        (b"\x15\3\1\0\2\2\x28\0\0", r"this is TLS, for which the URL is amqp091s://$"),
    ],
)
def test_invalid_frames(octets: bytes, said: str) -> None:
    reader = FrameReader(4096)
    if not said:
        assert [] == list(reader.feed(octets))
        return
    with pytest.raises(FrameError, match=said):
        list(reader.feed(octets))


@pytest.mark.parametrize(
    "frames, said",
    [
        ([(3, b"")], "instead of a content header"),
        ([(2, struct.pack(">HHQH", 60, 0, 101, 0))], "101 bytes exceeds the limit, 100"),
        ([(2, struct.pack(">HHQH", 61, 0, 1, 0))], "class 61"),
        ([(2, struct.pack(">HHQH", 60, 0, 1, 0)), (3, b"xy")], "exceeds the body size"),
        ([(2, struct.pack(">HHQH", 60, 0, 1, 0)), (3, b"")], "is empty"),
        ([(2, struct.pack(">HHQH", 60, 0, 1, 0)), (2, b"")], "instead of a content body"),
    ],
)
def test_invalid_content_frames(frames: list[tuple[int, bytes]], said: str) -> None:
    content = Content(DELIVER, b"")
    *before, (kind, payload) = frames
    for one in before:
        content.add(*one, 100)
    with pytest.raises(FrameError, match=said):
        content.add(kind, payload, 100)


def test_settlement_frames_equal_pikas() -> None:
    assert method(1, spec.Basic.Ack(5, True)) == ack(1, 5, multiple=True)
    assert method(1, spec.Basic.Nack(2**40, False, True)) == nack(1, 2**40, requeue=True)
    assert method(1, spec.Basic.Nack(5, False, False)) == nack(1, 5, requeue=False)


def test_publish_refuses_oversized_names_and_headers() -> None:
    with pytest.raises(FrameError, match="255 bytes"):
        publish(1, "", "k" * 256, b"", b"", 4096)
    with pytest.raises(FrameError, match="content header has 5000"):
        publish(1, "", "k", b"h" * 5000, b"", 4096)


# URLs.


@pytest.mark.parametrize(
    "url, shown, name",
    [
        ("amqp091://u:p@h/v%2Fw?queue=q%26", "amqp091://h:5672/v/w?queue=q%26", "q&"),
        (
            "amqp091s://h:1/?exchange=e&routing_key=k",
            "amqp091s://h:1/?exchange=e&routing_key=k",
            "e",
        ),
        ("amqp091://h/?exchange=", "amqp091://h:5672/?exchange=", ""),
        ("amqp091://h", "amqp091://h:5672/", "(each message's own)"),
        ("amqp://u:p@[::1]/orders", "amqp://[::1]:5672/orders", "orders"),
        ("amqps://h//queues/a%2520b", "amqps://h:5671//queues/a%2520b", "/queues/a%20b"),
        ("amqp://h/?queue=a/b", "amqp://h:5672//queues/a%252Fb", "/queues/a%2Fb"),
        ("amqp://h/?queue=q&address_version=1", "amqp://h:5672//amq/queue/q", "/amq/queue/q"),
        (
            "amqp://h/?queue=a/b%20%25&address_version=1",  # which has nothing else encoded
            "amqp://h:5672//amq/queue/a%252Fb%20%25",
            "/amq/queue/a%2Fb %",
        ),
        (
            "amqp://h/?exchange=e+1&routing_key=k/&address_version=1",
            "amqp://h:5672//exchange/e%201/k%252F",
            "/exchange/e 1/k%2F",
        ),
        (
            "amqp://h/?exchange=e&routing_key=k/",
            "amqp://h:5672//exchanges/e/k%252F",
            "/exchanges/e/k%2F",
        ),
        ("amqp://h/?address=%2Fx", "amqp://h:5672//x", "/x"),
        ("amqp://h", "amqp://h:5672/", "(each message's own)"),
    ],
)
def test_url_is_parsed_and_printed(url: str, shown: str, name: str) -> None:
    found = parse_url(url)

    assert (shown, name) == (str(found), found.name)


def test_parameters() -> None:
    query = "heartbeat=5&connection_timeout=1500&auth_mechanism=external&verify=verify_none"
    found = parse_url(f"amqp://h/q?{query}&vhost=v&offset=first&server_name_indication=n")

    assert (5, 1.5, "EXTERNAL", False) == (
        found.heartbeat,
        found.timeout,
        found.mechanism,
        found.verify,
    )
    assert ("v", "first", "n") == (found.virtual_host, found.offset, found.server_name)


def test_credentials() -> None:
    plain = parse_url("amqp://us%40er:pass%2Fword@h/q")
    hidden = parse_url("amqp://${NAME}:${WORD}@h/q", {"NAME": "n", "WORD": "%2F@:"})

    assert ("us@er", "pass/word") == (plain.user, plain.password)
    assert ("n", "%2F@:") == (hidden.user, hidden.password)
    assert (True, False) == (plain.is_exposed, parse_url("amqp://u:p@localhost/q").is_exposed)
    assert ("guest", None) == (parse_url("amqp091://h").user, parse_url("amqp://h/q").user)
    for one in (plain, hidden):
        assert (one.password or "") not in repr(one)
        assert (one.password or "") not in str(one)


@pytest.mark.parametrize(
    "url",
    [
        *("http://u:secret@h", "u:secret@h", "amqp://u:secret@h:99999/q", "amqp://u:secret@h/q#x"),
        *(
            "amqp://u:secret@h/q?queue=q",
            "amqp://u:secret@h/?routing_key=k",
            "amqp://u:secret@h/?a=b",
        ),
        *("amqp091://u:secret@h/?queue=a&exchange=b", "amqp091://u:secret@h/?queue=a&queue=b"),
        *("amqp091://u:secret@h/?heartbeat=0", "amqp091://u:secret@h/?verify=maybe"),
        *("amqp://u:secret@h/?address_version=3", "amqp://${NOT_THERE}:secret@h/q"),
        *(f"amqp://u:secret@h/?queue={name}&address_version=1" for name in ("gr%C3%B6", "a%252F")),
        *("amqp://u:secret@h/?auth_mechanism=x", "amqp://u:secret@h/?heartbeat=²"),
        *(f"amqp://u:secret@h/q?offset={at}" for at in ("soon", "-1", "10w", "10m5s", "%C2%B2")),
    ],
)
def test_invalid_urls(url: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011  (each says something else)
        parse_url(url, {})

    assert "secret" not in str(error.value)


# The quarantine.


@given(
    st.lists(
        st.builds(
            SourceDelivery,
            st.binary(max_size=50),
            st.none() | st.binary(max_size=50),
            st.text(max_size=5),
            st.text(max_size=5),
            st.booleans(),
        ),
        min_size=1,
        max_size=5,
    ),
    st.integers(1, 400),
    st.text('a"\\{}[]', max_size=9),
)
def test_quarantine_keeps_exact_bytes(
    deliveries: list[SourceDelivery], written: int, description: str
) -> None:
    path = Path("quarantine-test.jsonl")
    path.unlink(missing_ok=True)
    try:
        outcome = Outcome("rejected", "c", description)
        Quarantine(path).add([(deliveries[0], outcome)], route="", source="", target="")
        line = path.read_bytes()
        path.unlink()
        Quarantine(path).add([(deliveries[0], Outcome("full"))], route="", source="", target="")
        with path.open("ab") as file:
            file.write(line[: min(written, len(line) - 2)])  # killed while it wrote
        rest = [(one, Outcome("rejected", "c", "d")) for one in deliveries[1:]]
        Quarantine(path).add(rest, route="r", source="s", target="t")

        found = list(read_quarantine(path))
    finally:
        path.unlink(missing_ok=True)
    assert [
        (one.octets, one.content_header, one.exchange, one.routing_key, one.redelivered)
        if one.content_header is not None
        else (one.octets, None, "", "", one.redelivered)
        for one in deliveries
    ] == [
        (one.octets, one.content_header, one.exchange, one.routing_key, one.redelivered)
        for one in found
    ]
    assert {("rejected", "c", "d", "r", "s", "t")} >= {
        (one.reason, one.condition, one.description, one.route, one.source, one.target)
        for one in found[1:]
    }


@pytest.mark.parametrize(
    "line", ["{}", "[]", '{"raw": 5}', '{"raw": "0"}', '{"raw": "00", "protocol": "0-9-1"}']
)
def test_invalid_quarantine_line(tmp_path: Path, line: str) -> None:
    path = tmp_path / "q.jsonl"
    path.write_text(f"{line}\n")
    with pytest.raises(ValueError, match="line 1"):
        list(read_quarantine(path))


# The ledger.


def test_ledger_is_persistent_and_bounded(tmp_path: Path) -> None:
    path = tmp_path / "seen.db"
    ledger = Ledger(path, "r", "amqp://h/a", 3)
    ledger.add(["string:1", "string:2", "string:" + "x" * 500])
    ledger.add(["string:2", "string:3"])
    other = Ledger(path, "other", "amqp://h/a", 3)
    elsewhere = Ledger(path, "r", "amqp://h/b", 3)

    again = Ledger(path, "r", "amqp://h/a", 3)

    names = ["string:1", "string:2", "string:" + "x" * 500, "string:3", "binary:3"]
    assert [False, True, True, True, False] == [again.has(name) for name in names]
    assert (3, 3, 0, 0) == (len(ledger), len(again), len(other), len(elsewhere))
    assert not elsewhere.has("string:3")
    for one in (ledger, other, elsewhere, again):
        one.close()


def test_ledger_refuses_another_file(tmp_path: Path) -> None:
    path = tmp_path / "seen.db"
    path.write_bytes(b"no SQLite file, but long enough to be seen as something else" * 20)
    with pytest.raises(OSError, match=r"seen\.db"):
        Ledger(path, "r", "amqp://h/a", 3)
