"""The inspector without a browser: reading input, and rendering fragments."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("jinja2")

from amqp10msg import Message, files, validate
from amqp10msg.app.inspector.judging import is_message
from amqp10msg.app.inspector.reading import Item
from amqp10msg.app.inspector.session import MAX_MESSAGES, Session, examples
from amqp10msg.basic import BasicMessage, decode_properties, encode_content_header
from amqp10msg.files.capture import read_packet_or_frames
from amqp10msg.testing import basic_messages, malformed, messages
from amqp10msg.translate import PROFILES as TRANSLATIONS
from amqp10msg.validation import PROFILES
from tests import captures as capture
from tests.pages import Page

pytestmark = pytest.mark.once

CAPTURE = Path(__file__).parents[1] / "vectors" / "capture.pcap"
TEXTS = st.text(max_size=80) | st.from_regex(r"[0-9a-fx\\ \n]{0,80}", fullmatch=True)


def shown(data: bytes, number: int = 1, **chosen: str) -> Page:
    page = Page(Session(data).show(number, **chosen).html)
    assert [] == page.open
    return page


@given(st.binary(max_size=200) | TEXTS.map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_any_input_is_shown_without_becoming_markup(data: bytes) -> None:
    page = shown(data)

    assert not {"script", "img", "style", "iframe"} & set(page.tags)


@settings(max_examples=25)  # each is four pages' worth of work
@given(messages(), st.sampled_from([*PROFILES]), st.sampled_from([*TRANSLATIONS]))
def test_a_message_is_shown_with_its_violations_and_its_translation(
    message: Message, profile: str, translation: str
) -> None:
    octets = message.encode()
    session = Session(octets)
    made = session.show(profile=profile, translation=translation)
    page = Page(made.html)

    assert [octets] == [item.data for item in session.items]
    assert [] == page.open
    for violation in validate(octets, PROFILES[profile])[:100]:
        assert violation.rule in page.text
    assert f"As AMQP 0-9-1, by {translation}" in page.text
    if made.link:
        linked = Session(made.link.encode())
        assert [octets] == [item.data for item in linked.items]


@given(malformed())
def test_broken_message_is_shown_with_its_fault(data: bytes) -> None:
    shown(data)


@given(basic_messages(), st.sampled_from([*TRANSLATIONS]))
def test_a_content_header_is_translated(message: BasicMessage, translation: str) -> None:
    octets = encode_content_header(message.properties, len(message.body)) + message.body
    page = shown(octets, translation=translation)

    assert f"As AMQP 1.0, by {translation}" in page.text


def test_invalid_utf_8_is_shown_as_bytes() -> None:
    properties = decode_properties(bytes.fromhex("0080 02 ff41"))
    page = shown(encode_content_header(properties, 0))

    assert "2 bytes: ff 41" in page.text
    assert "udc" not in page.text


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_the_messages_of_a_capture_are_listed(pack: type) -> None:
    records = list(files.read(CAPTURE))
    session = Session(pack(CAPTURE.read_bytes()), "capture.pcap")

    assert len(records) == len(session.items)
    for number, record in enumerate(records, 1):
        made = session.show(number)
        assert f"{len(records)} messages found" in Page(made.html).text
        assert (record.exchange or "", record.routing_key or "") == (
            made.exchange,
            made.routing_key,
        )


def test_list_of_messages_is_limited() -> None:
    lines = b"".join(Message(f"{n}").encode().hex().encode() + b"\n" for n in range(520))

    session = Session(lines)
    assert MAX_MESSAGES == len(session.items)
    assert "more that are not listed" in shown(lines).text


@given(st.binary(max_size=300), st.sampled_from([4, 6]), st.integers(1, 4))
def test_single_packets_and_frames(body: bytes, version: int, count: int) -> None:
    """Wireshark copies a whole packet, or only the content of its data field."""
    wire = Message(body).encode()
    frames = b"".join(capture.transfer(0, wire, n) for n in range(count))
    packet = capture.packet(capture.Piece(1, frames), version)

    for data in (frames, packet):
        found = read_packet_or_frames(data)
        assert found is not None
        assert [wire] * count == [record.wire for record in found]
        items = Session(data.hex(" ").encode()).items
        assert [wire] * count == [item.data for item in items]
    content = capture.content(capture.PUBLISH, body, pieces=2)
    found = read_packet_or_frames(content)
    assert found is not None
    assert [(body, "ex", "key")] == [(one.payload, one.exchange, one.routing_key) for one in found]


@given(messages())
def test_message_is_not_read_as_a_packet(message: Message) -> None:
    data = message.encode()

    assert [Item("message", data)] == Session(data).items


def test_frames_without_a_message_are_reported() -> None:
    for data in (capture.frame(None), capture.packet(capture.Piece(1, b""))):
        (item,) = Session(data.hex().encode()).items
        assert item.fault.endswith("without a whole message of AMQP")


@pytest.mark.parametrize("name, octets", examples())
def test_examples(name: str, octets: bytes) -> None:
    text = shown(octets).text

    assert ("This cannot" in text or "Not all" in text) == ("truncated" in name)
    assert bool(re.search(r"\d error", text)) == (
        name in {"a truncated order", "a duplicate section"}
    )


@pytest.mark.parametrize(
    "descriptor, is_one",
    [
        ("5375", True),
        ("800000000000000075", True),
        ("a310" + b"amqp:data:binary".hex(), True),
        ("b300000010" + b"amqp:data:binary".hex(), True),
        # Numbers and text that are no ulong and no symbol describe no section.
        *(("5075", False), ("600075", False), ("5275", False), ("5475", False), ("5575", False)),
        ("830000000000000075", False),
        ("a110" + b"amqp:data:binary".hex(), False),
        ("5324", False),
    ],
)
def test_only_the_descriptor_of_a_section_begins_a_message(descriptor: str, is_one: bool) -> None:
    assert is_one == is_message(bytes.fromhex(f"00{descriptor}a00178"))
