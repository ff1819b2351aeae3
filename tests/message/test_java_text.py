"""Text in the modified UTF-8 of Java, which ActiveMQ sends: only lenient decoding reads it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import DecodeError, Message, validate

DATA = bytes.fromhex("005375a00178")
#: Text with at least one character that modified UTF-8 writes differently.
TEXTS = st.tuples(st.text(max_size=5), st.sampled_from("😀𐀀\U0010ffff\0"), st.text(max_size=5)).map(
    "".join
)


def modified_utf8(text: str) -> bytes:
    """Encode text as Java's DataOutputStream.writeUTF does."""
    units = text.encode("utf-16-be", "surrogatepass")
    octets = b"".join(
        chr(int.from_bytes(units[place : place + 2])).encode("utf-8", "surrogatepass")
        for place in range(0, len(units), 2)
    )
    return octets.replace(b"\0", b"\xc0\x80")


def string(octets: bytes) -> bytes:
    return b"\xa1" + bytes([len(octets)]) + octets


def compound(code: int, count: int, content: bytes) -> bytes:
    return bytes([code, len(content) + 1, count]) + content


def message_with(text: bytes) -> bytes:
    """Encode a message with the text in the properties, as a key, a value, and in an array."""
    array = b"\xe0" + bytes([len(text) + 3, 1, 0xA1, len(text)]) + text
    annotations = compound(0xC1, 2, b"\xa3\x07x-opt-a" + array)
    properties = compound(0xC0, 4, b"\x40\x40\x40" + string(text))
    application_properties = compound(0xC1, 2, string(text) + string(text))
    return b"".join(
        (
            b"\x00\x53\x72" + annotations,
            b"\x00\x53\x73" + properties,
            b"\x00\x53\x74" + application_properties,
            b"\x00\x53\x77" + string(text),
        )
    )


@given(text=TEXTS)
def test_lenient_decoding_reads_modified_utf8(text: str) -> None:
    octets = message_with(modified_utf8(text))
    expected = Message.decode(message_with(text.encode()))

    with pytest.raises(DecodeError) as caught:
        Message.decode(octets)
    message = Message.decode(octets, strict=False)

    assert "invalid-utf8" == caught.value.rule
    assert text == message.subject == message.value
    assert expected.application_properties == message.application_properties
    assert expected.message_annotations == message.message_annotations
    assert octets == message.encode()
    assert ["invalid-utf8"] * 4 == [found.rule for found in validate(octets)]


@given(text=TEXTS)
def test_changed_section_is_written_as_utf8(text: str) -> None:
    message = Message.decode(message_with(modified_utf8(text)), strict=False)

    changed = message.evolve(application_properties={"text": text})

    assert text.encode() in changed.encode()
    assert {"text": text} == Message.decode(changed.encode(), strict=False).application_properties


@pytest.mark.parametrize(
    "octets",
    [b"\xed\xa0\xbd", b"\xed\xb8\x80", b"\xed\xb8\x80\xed\xa0\xbd", b"\xff", b"\xc3", b"\xc0\x81"],
    ids=["high surrogate", "low surrogate", "swapped", "0xFF", "cut off", "overlong"],
)
def test_other_bytes_stay_malformed(octets: bytes) -> None:
    wire = b"\x00\x53\x74" + compound(0xC1, 2, string(b"k") + string(octets)) + DATA

    message = Message.decode(wire, strict=False)

    assert message.application_properties is None
    assert wire == message.encode()
    assert ["invalid-utf8"] == [found.rule for found in validate(wire)]
