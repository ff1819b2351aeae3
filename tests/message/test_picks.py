"""Values picked out of encoded messages: those that decoding gives, and checked as is said."""

from __future__ import annotations

import copy
import pickle
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import amqp10msg
from amqp10msg import (
    AmqpSequence,
    AmqpValue,
    Data,
    DecodeError,
    Header,
    Int,
    Limits,
    Message,
    MessageAnnotations,
    Picker,
    Properties,
    Symbol,
    UInt,
    ULong,
    encode_value,
    scan,
)
from amqp10msg.testing import bodies, encodings, malformed, messages, mutated
from amqp10msg.wire.primitives import AmqpMap, Described, identical
from bench.messages import REFERENCE
from fuzz import picks

SPELLED = messages(body=st.none() | bodies()).flatmap(encodings)


@given(SPELLED)
@example(b"")
def test_picked_values_equal_decoded_values(octets: bytes) -> None:
    picks.check(amqp10msg, octets, Message.decode(octets))


@given(malformed() | SPELLED.flatmap(mutated))
def test_any_bytes_are_refused_or_picked_like_decoded(
    octets: bytes,
) -> None:
    message = None
    with suppress(DecodeError):
        message = Message.decode(octets)

    picks.check(amqp10msg, octets, message)


@given(messages().filter(lambda message: message.properties is not None), st.data())
def test_paths_in_any_order(message: Message, data: st.DataObject) -> None:
    found = dict(picks.held(message))
    paths = data.draw(st.lists(st.sampled_from([*found]), unique=True))

    picked = Picker(*paths)(message.encode())

    assert identical([found[path] for path in paths], list(picked))


def test_fields_of_a_message() -> None:
    pick = Picker(
        "properties.message_id",
        "application_properties.tenant",
        "header.ttl",
        "message_annotations['x-opt-trace']",
    )

    assert ("msg-00417", "acme", 60_000, None) == pick(REFERENCE)
    assert (None, None, None, None) == pick(b"")
    assert pick(REFERENCE) == pick(bytearray(REFERENCE)) == pick(memoryview(REFERENCE))


def test_types_are_those_of_decoding() -> None:
    octets = Message(
        properties=Properties(message_id=7, creation_time=5),
        application_properties={"n": Int(3), "u": UInt(3), "s": Symbol("a")},
    ).encode()

    picked = Picker(
        "properties.message-id",
        "properties.creation-time",
        *(f"application-properties.{key}" for key in "nus"),
    )(octets)

    assert identical([ULong(7), 5, Int(3), UInt(3), Symbol("a")], list(picked))


def test_defaults_replace_missing_values() -> None:
    pick = Picker(("header.ttl", 5), ("header.priority", 9), ("application_properties.a", "none"))

    assert (5, 9, "none") == pick(b"")
    # Of a header that is there, the field's own default is what it says.
    assert (5, 4, "none") == pick(Message(header=Header()).encode())
    # A null is there.
    assert (5, 9, None) == pick(Message(application_properties={"a": None}).encode())
    assert (5, 9, "none") == pick.defaults
    assert "header.ttl" == pick.paths[0]


@pytest.mark.parametrize(
    "body, expected",
    [
        (None, "absent"),
        (Data(b"ab"), b"ab"),
        ([Data(b"a"), Data(b""), Data(b"b")], b"ab"),
        (AmqpValue(None), None),
        (AmqpValue({"a": [1]}), {"a": [1]}),
        (AmqpSequence([1, 2]), [1, 2]),
        ([AmqpSequence([1]), AmqpSequence([2])], [1, 2]),
    ],
)
def test_the_body(body: Any, expected: Any) -> None:
    assert (expected,) == Picker(("body", "absent"))(Message(body).encode())


def test_whole_sections() -> None:
    message = Message.decode(REFERENCE)

    assert (
        message.header,
        message.application_properties,
        message.properties,
        None,
    ) == Picker("header", "application_properties", "properties", "footer")(REFERENCE)


def test_keys_of_annotations() -> None:
    octets = Message(message_annotations=MessageAnnotations({"x-opt-e": 1, 5: "five"})).encode()

    assert (1, "five", "five") == (
        *Picker("message_annotations.x-opt-e", "message_annotations[5]")(octets),
        *Picker("message-annotations[0x5305]")(octets),
    )


@pytest.mark.parametrize(
    "text, key",
    [
        ("application_properties.a.b", "a.b"),
        (r"application_properties['it\'s']", "it's"),
        ('application_properties["it\'s"]', "it's"),
        ("application-properties['ü\\n']", "ü\n"),
        ("application-properties[0xa10161]", "a"),
    ],
)
def test_keys_as_errors_write_them(text: str, key: str) -> None:
    assert (1,) == Picker(text)(Message(application_properties={key: 1}).encode())


def test_the_path_of_an_error_is_one_to_pick_by() -> None:
    octets = bytearray(Message(application_properties={"ab": 1, "cd": "x"}).encode())
    octets[-1:] = b"\xff"

    with pytest.raises(DecodeError) as raised:
        Message.decode(octets)

    assert "application-properties['cd']" == raised.value.path
    with pytest.raises(DecodeError) as again:
        Picker(raised.value.path)(octets)
    assert (raised.value.path, raised.value.offset, raised.value.rule) == (
        again.value.path,
        again.value.offset,
        again.value.rule,
    )


@pytest.mark.parametrize(
    "paths, text",
    [
        (["header.tll"], "did you mean 'header.ttl'"),
        (["headr.ttl"], "did you mean 'header'"),
        (["properties['to']"], "a message has no"),
        (["body.a"], "use 'body'"),
        (["application_properties[5]"], "must be a string"),
        (["application_properties['\ud800']"], "a quoted string"),
        (["message_annotations.ü"], "an ASCII string or a ulong"),
        (["message_annotations[-1]"], "an ASCII string or a ulong"),
        (["message_annotations[True]"], "an ASCII string or a ulong"),
        (["message_annotations['a]"], "a quoted string"),
        (["message_annotations[0xZZ]"], "a quoted string"),
        (["", "header"], "a message has no"),
        (["header.ttl", "header.ttl"], "overlap"),
        (["header.ttl", "header"], "overlap"),
        (["footer", "footer.a"], "overlap"),
        (["body", "body"], "overlap"),
        (["message_annotations.a", "message-annotations['a']"], "overlap"),
    ],
)
def test_wrong_paths(paths: list[str], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        Picker(*paths)


def test_picker_path_must_be_a_str() -> None:
    wrong: Any = 5
    with pytest.raises(TypeError, match="a path must be a str, not int"):
        Picker(wrong)


def test_picker_data_must_be_bytes() -> None:
    wrong: Any = "text"
    with pytest.raises(TypeError, match="expected bytes"):
        Picker("body")(wrong)


def section(code: int, value: bytes) -> bytes:
    return b"\x00\x53" + bytes([code]) + value


def test_unrequested_values_may_be_malformed() -> None:
    # A symbol in the properties that is not ASCII, a property that is not UTF-8, and sections out
    # of order: scan passes over all of it.
    properties = section(0x73, b"\xc0\x0a\x07@@@@@@\xa3\x01\xff")
    octets = (
        section(0x75, b"\xa0\x01x")
        + section(0x74, b"\xc1\x0b\x04\xa1\x01a\xa1\x01\xff\xa1\x01b\x41")
        + properties
        + section(0x70, b"\x45")
    )
    scan(octets)

    assert (True, None, False) == Picker(
        "application_properties.b", "properties.to", "header.durable"
    )(octets)
    for path, rule in (
        ("application_properties.a", "invalid-utf8"),
        ("properties.content_type", "symbol-not-ascii"),
    ):
        with pytest.raises(DecodeError) as raised:
            Picker(path)(octets)
        assert rule == raised.value.rule


@pytest.mark.parametrize(
    "octets, path, rule",
    [
        (section(0x70, b"\x45") * 2, "header.ttl", "duplicate-section"),
        (section(0x77, b"\x40") * 2, "body", "duplicate-section"),
        (section(0x75, b"\xa0\x00") + section(0x77, b"\x40"), "body", "mixed-body-sections"),
        (
            section(0x74, b"\xc1\x09\x04\xa1\x01a\x41\xa1\x01a\x42"),
            "application_properties.a",
            "map-duplicate-key",
        ),
        (
            section(0x74, b"\xc1\x05\x02\xa1\x01a\x45"),
            "application_properties.a",
            "application-properties-value-not-simple",
        ),
        (section(0x74, b"\xc1\x02\x01\x40"), "application_properties.a", "map-odd-count"),
        (
            section(0x74, b"\xc1\x03\x02\x40\x40"),
            "application_properties.a",
            "application-properties-key-type",
        ),
        (section(0x74, b"\x45"), "application_properties.a", "section-value-type"),
        (
            section(0x74, b"\xc1\x06\x02\xa1\x01a\x40\x40"),
            "application_properties.b",
            "compound-trailing-bytes",
        ),
        (section(0x70, b"\xc0\x03\x02\x40\x41"), "header.priority", "field-type"),
        (section(0x70, b"\xc0\x07\x06@@@@@@"), "header.durable", "too-many-fields"),
        (section(0x70, b"\xc1\x01\x00"), "header.ttl", "section-value-type"),
        (section(0x70, b"\xc0\x03\x03\x40\xa1\x05"), "header.ttl", "count-exceeds-size"),
        (section(0x70, b"\xc0\x04\x03\x40\xa1\x05"), "header.ttl", "truncated"),
        (section(0x75, b"\xa0\x05a"), "header.ttl", "truncated"),
        (b"\x4f", "header.ttl", "unknown-constructor"),
    ],
)
def test_fault_before_the_picked_value_is_an_error(octets: bytes, path: str, rule: str) -> None:
    with pytest.raises(DecodeError) as raised:
        Picker(path)(octets)

    assert rule == raised.value.rule
    assert octets == raised.value.data


def test_an_entry_is_the_same_in_any_spelling_of_its_key() -> None:
    # A key with a size of four bytes, a ulong of eight, and a descriptor that is a symbol.
    properties = b"\xc1\x09\x02\xb1\x00\x00\x00\x01a\x54\x07"
    annotations = b"\xd1\0\0\0\x0e\0\0\0\x02\x80\0\0\0\0\0\0\0\x05\x41"
    named = b"\x00\xa3\x1famqp:application-properties:map" + properties
    octets = section(0x72, annotations) + named
    expected = (Int(7), True)

    assert expected == Picker("application_properties.a", "message_annotations[5]")(octets)


def test_limits() -> None:
    octets = Message(application_properties={"a": 1, "b": 2}).encode()
    assert (2,) == Picker("application_properties.b", limits=Limits(items=4))(octets)

    for limits, rule in ((Limits(items=3), "items-limit"), (Limits(size=3), "size-limit")):
        with pytest.raises(DecodeError) as raised:
            Picker("application_properties.b", limits=limits)(octets)
        assert rule == raised.value.rule
    # What is passed over counts for nothing.
    assert (None,) == Picker("header.ttl", limits=Limits(items=0))(octets)


def test_described_values_are_skipped() -> None:
    annotations = {"a": Described(Symbol("d"), AmqpMap([([1], 2)])), "b": [Described(1, 2)], "c": 3}
    octets = Message(message_annotations=MessageAnnotations(annotations)).encode()

    assert (3,) == Picker("message_annotations.c")(octets)
    assert identical(
        [annotations["a"], 3], [*Picker(*map("message_annotations.{}".format, "ac"))(octets)]
    )


def test_values_other_than_sections_are_skipped() -> None:
    octets = encode_value([1, 2]) + encode_value(Described(ULong(0x99), 1)) + section(0x70, b"\x45")

    assert (4,) == Picker("header.priority")(octets)


def test_copies() -> None:
    pick = Picker("header.ttl", ("application_properties['a b']", 7), limits=Limits(items=9))

    for made in (copy.deepcopy(pick), pickle.loads(pickle.dumps(pick))):
        assert repr(pick) == repr(made)
        assert (pick.paths, pick.defaults, pick.limits) == (made.paths, made.defaults, made.limits)
    assert "Picker('header.ttl', (\"application_properties['a b']\", 7))" == repr(pick)


def test_uninitialised_object_raises() -> None:
    with pytest.raises((AttributeError, TypeError)):
        Picker.__new__(Picker)(REFERENCE)


@pytest.mark.parametrize(
    "name, path",
    [
        ("subject", "properties.subject"),
        ("message_id", "properties.message-id"),
        ("ttl", "header.ttl"),
    ],
)
def test_a_field_without_its_section_is_refused_with_a_hint(name: str, path: str) -> None:
    with pytest.raises(ValueError, match=f"did you mean '{path}'"):
        Picker(name)
