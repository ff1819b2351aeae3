"""What ``strict=False`` reads: everything but the section that a fault is in, and that as bytes."""

from __future__ import annotations

import contextlib
import pickle
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import (
    AmqpMap,
    AmqpValue,
    Array,
    Data,
    DecodeError,
    Described,
    Footer,
    Header,
    Limits,
    Malformed,
    Message,
    MessageAnnotations,
    Properties,
    Symbol,
    UByte,
    UInt,
    ULong,
    decode_value,
    delivery,
    encode_value,
    scan,
    skip_value,
    validate,
)
from amqp10msg.composite import Error
from amqp10msg.delivery import Modified, Received, Rejected, Source
from amqp10msg.delivery.filters import SqlFilter
from amqp10msg.notation import from_plain, from_typed, to_plain, to_typed
from amqp10msg.sections import KINDS
from amqp10msg.testing import (
    annotation_maps,
    delivery_states,
    encodings,
    mutated,
    sections,
    values,
)
from amqp10msg.testing import messages as messages_of
from amqp10msg.wire.kernel import Writer
from amqp10msg.wire.primitives import identical

NAMES = [kind.name for kind in KINDS]
#: Values that are none, of intact size, each with its rule and where in it that is broken.
FAULTS = {
    "a1 01 ff": ("invalid-utf8", 2),
    "a3 01 e9": ("symbol-not-ascii", 2),
    "56 02": ("boolean-octet-not-0-or-1", 1),
    "73 0000d800": ("char-not-a-unicode-scalar", 1),
    "c0 02 01 3f": ("unknown-constructor", 3),
    "c1 02 01 40": ("map-odd-count", 0),
    "c0 03 01 40 40": ("compound-trailing-bytes", 4),
    "e0 01 01": ("compound-size-too-small", 1),
}
#: Values that break a rule and can be read nevertheless, and what they are read as.
READ_OVER: dict[str, tuple[str, Any]] = {
    "e0 01 00": ("array-without-constructor", Array("null")),
    "f0 00000004 00000000": ("array-without-constructor", Array("null")),
    "c1 05 04 40 41 40 42": ("map-duplicate-key", AmqpMap([(None, True), (None, False)])),
}
#: A section of each place, as a message without faults has them.
OTHERS = {
    kind.name: Message(**{kind.attribute: section}).encode()  # type: ignore[arg-type]
    for kind, section in (
        (KINDS[0], Header(priority=9)),
        (KINDS[1], {"x-d": "d"}),
        (KINDS[2], {"x-m": "m"}),
        (KINDS[3], Properties(to="q")),
        (KINDS[4], {"a": "p"}),
        (KINDS[5], Data(b"data")),
        (KINDS[8], {"x-f": "f"}),
    )
}
messages = (
    st.lists(st.sampled_from(NAMES), unique=True)
    .map(sorted)
    .flatmap(lambda names: st.tuples(*(sections(name) for name in NAMES if name in names)))
)


def lenient(octets: bytes) -> Message:
    return Message.decode(octets, strict=False)


def lenient_or_none(octets: bytes) -> Message | None:
    """Decode leniently; None where it is refused, whose error holds the input."""
    refused = None
    try:
        return lenient(octets)
    except DecodeError as error:
        refused = error.data
    assert octets == refused
    return None


def entry(key: bytes, value: bytes) -> bytes:
    """A map of one entry."""
    content = key + value
    return b"\xd1" + (len(content) + 4).to_bytes(4, "big") + b"\0\0\0\x02" + content


def holding(name: str, value: bytes) -> bytes:
    """A section of this kind with the value somewhere in it."""
    kind = next(kind for kind in KINDS if kind.name == name)
    head = b"\x00\x53" + bytes([kind.code])
    if kind.source == "map":
        key = b"\xa1\x01k" if name == "application-properties" else b"\xa3\x03x-k"
        return head + entry(key, value)
    if kind.source == "list":
        return head + b"\xd0" + (len(value) + 4).to_bytes(4, "big") + b"\0\0\0\x01" + value
    return head + value


@pytest.mark.parametrize("name", [name for name in NAMES if name != "data"])
@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_fault_in_one_section_keeps_all_other_sections(name: str, fault: str) -> None:
    rule, at = FAULTS[fault]
    bad = holding(name, bytes.fromhex(fault))
    order = {kind.name: kind.order for kind in KINDS}
    whole = {kind.name: OTHERS[kind.name] for kind in KINDS if kind.name in OTHERS}
    before = b"".join(octets for other, octets in whole.items() if order[other] < order[name])
    after = b"".join(octets for other, octets in whole.items() if order[other] > order[name])
    octets = before + bad + after
    with pytest.raises(DecodeError):
        Message.decode(octets)

    message = lenient(octets)

    (malformed,) = [part for _, part in message.sections() if isinstance(part, Malformed)]
    assert (bad, octets) == (malformed.data, malformed.error.data)
    offset = len(before + bad) - len(bytes.fromhex(fault)) + at
    assert (rule, offset) == (malformed.error.rule, malformed.error.offset)
    assert malformed.error.path.startswith(name)
    assert (rule, offset) in {(v.rule, v.offset) for v in message.violations}
    assert octets == message.encode()
    without = Message.decode(before + after)
    for kind in KINDS:
        assert getattr(without, kind.attribute) == getattr(message, kind.attribute)
    assert message == pickle.loads(pickle.dumps(message))
    assert message != lenient(octets.replace(bad, bad[:-1] + b"\x05"))
    for back in (from_typed(to_typed(message)), from_plain(to_plain(message))):
        assert octets == back.encode()
    # What is changed beside it leaves it alone.
    message.footer = Footer({"x-new": 1})
    assert (bad in message.encode()) == (name != "footer")


@given(st.sampled_from([name for name in NAMES if name != "data"]), st.sampled_from(sorted(FAULTS)))
def test_malformed_section_can_be_replaced(name: str, fault: str) -> None:
    message = lenient(holding(name, bytes.fromhex(fault)))
    attribute = next(kind.attribute for kind in KINDS if kind.name == name)
    assert getattr(message, attribute) is None
    new: Any = {
        "header": Header(priority=7),
        "properties": Properties(to="q"),
        "body": Data(b"new"),
        "application_properties": {"k": 1},
    }.get(attribute, {Symbol("x-k"): 1})
    setattr(message, attribute, new)
    assert Message(**{attribute: new}).encode() == message.encode()


@given(st.sampled_from(["message-annotations", "amqp-sequence", "amqp-value"]), st.data())
def test_values_with_recoverable_faults_are_read(name: str, data: st.DataObject) -> None:
    octets = data.draw(st.sampled_from(sorted(READ_OVER)))
    rule, expected = READ_OVER[octets]
    value = bytes.fromhex(octets)
    for _ in range(data.draw(st.integers(0, 3))):
        if data.draw(st.booleans()):
            value, expected = entry(b"\xa1\x01k", value), {"k": expected}
        else:
            value = b"\xd0" + (len(value) + 5).to_bytes(4, "big") + b"\0\0\0\x02\x40" + value
            expected = [None, expected]
    wire = holding(name, value)
    with pytest.raises(DecodeError) as refused:
        Message.decode(wire)
    assert refused.value.rule == rule

    message = lenient(wire)

    if name == "message-annotations":
        assert {"x-k": expected} == message.message_annotations
    elif name == "amqp-sequence":
        assert [expected] == message.body.values  # type: ignore[union-attr]
    else:
        assert AmqpValue(expected) == message.body
    assert wire == message.encode()
    assert any(rule.startswith(violation.rule) for violation in message.violations)
    assert [(0, len(wire))] == [(part.offset, part.end) for part in scan(wire)]
    assert len(value) == skip_value(value)
    for back in (from_typed(to_typed(message)), from_plain(to_plain(message))):
        assert wire == back.encode()
    message.header = Header(priority=1)
    assert Header(priority=1).priority == lenient(message.encode()).header.priority  # type: ignore[union-attr]
    assert message.encode().endswith(wire)


@given(
    messages_of(),
    st.sampled_from(["body", "header", "properties", "application_properties", "footer"]),
    st.data(),
)
def test_any_section_of_a_damaged_message_can_be_replaced(
    message: Message, name: str, data: st.DataObject
) -> None:
    octets = message.encode()
    octets = data.draw(mutated(octets) | st.integers(0, len(octets)).map(lambda end: octets[:end]))
    with contextlib.suppress(DecodeError):
        changed = lenient(octets)
        new = data.draw(messages_of().filter(lambda one: getattr(one, name) is not None))
        setattr(changed, name, getattr(new, name))

        sent = lenient(changed.encode())
        assert Message(**{name: getattr(new, name)}) == Message(**{name: getattr(sent, name)})


@pytest.mark.parametrize("octets", ["005375", "005375a10178", "005375b000000001", "005375a0"])
@pytest.mark.parametrize("data", [b"x", b""])
def test_damaged_body_can_be_replaced_by_data(octets: str, data: bytes) -> None:
    message = lenient(bytes.fromhex("00537045" + octets))
    message.body = Data(data)

    assert Data(data) == lenient(message.encode()).body


def test_error_for_an_array_without_constructor() -> None:
    with pytest.raises(DecodeError, match=r"at byte 3 \(amqp-value\): an empty array has no cons"):
        Message.decode(bytes.fromhex("005377e00100"))
    # Beside another value it is one of the section's own.
    sent = bytes.fromhex("005372c10b04a30178e00100a3017940005377e00100")
    assert {"x": Array("null"), "y": None} == lenient(sent).message_annotations
    # An array that was read so and is written anew has a constructor.
    assert "e0020040" == encode_value(Array("null")).hex()


def test_section_with_a_duplicate_key_is_an_amqp_map() -> None:
    wire = bytes.fromhex("005372c10d04a30178a10158a30178a10159005377a10161")
    message = lenient(wire)

    twice = AmqpMap([(Symbol("x"), "X"), (Symbol("x"), "Y")])
    assert twice == message.message_annotations
    assert "a" == message.text()
    assert [
        ("message-annotations", Described(ULong(0x72), twice)),
        ("amqp-value", AmqpValue("a")),
    ] == message.sections()
    assert wire == message.encode()
    assert message != lenient(wire.replace(b"Y", b"Z"))
    message.header = Header(priority=1)
    assert message.encode().endswith(wire)
    message.message_annotations = MessageAnnotations({Symbol("x"): "Z"})
    assert {"x": "Z"} == Message.decode(message.encode()).message_annotations


@given(annotation_maps(), values(), st.sampled_from(["message", "delivery", "footer"]))
def test_plain_keys_find_entries_next_to_duplicate_keys(
    entries: Any, value: Any, name: str
) -> None:
    code = {"delivery": 0x71, "message": 0x72, "footer": 0x78}[name]
    writer = Writer(True)
    pairs = [(Symbol("x-twice"), 1), *entries.items(), (Symbol("x-twice"), 2)]
    writer.value(Described(ULong(code), AmqpMap([*pairs, (Symbol("x-last"), value)])))
    section, body = writer.finish(), Message("x").encode()
    message = lenient(body + section if name == "footer" else section + body)

    read = getattr(message, "footer_entry" if name == "footer" else f"{name}_annotation")
    assert 1 == read("x-twice")
    assert identical(value, read("x-last"))
    for key, held in entries.items():
        if key not in {"x-twice", "x-last"}:
            assert identical(held, read(str(key) if isinstance(key, str) else int(key)))
    assert read("x-none", "no") == "no" == read(b"x-none", "no")
    letter = name[0]
    assert SqlFilter(f"{letter}.[x-twice] = 1", dialect="oasis").matches(message)


@given(
    st.sampled_from(["header", "properties"]).flatmap(sections),
    st.lists(values(), min_size=1, max_size=3),
)
def test_surplus_fields_are_kept(section: Any, surplus: list[Any]) -> None:
    known = 5 if isinstance(section, Header) else 13
    alone = Message(**{type(section).__name__.lower(): section}).encode()
    fields = decode_value(alone)
    fields.value += [None] * (known - len(fields.value)) + surplus
    wire = encode_value(fields) + b"\x00\x53\x77\x40"

    message = lenient(wire)

    attribute = "header" if known == 5 else "properties"
    assert getattr(Message.decode(alone), attribute) == getattr(message, attribute)
    assert wire == message.encode()
    assert "too-many-fields" in {violation.rule for violation in message.violations}
    if known == 5:
        message.header.delivery_count += 1  # type: ignore[union-attr]
    else:
        message.properties.to = "elsewhere"  # type: ignore[union-attr]
    changed = lenient(message.encode())
    assert getattr(message, attribute) == getattr(changed, attribute)
    kept = decode_value(message.encode()[: skip_value(message.encode())]).value
    assert identical(surplus, kept[known:])


@pytest.mark.parametrize(
    "octets, attribute, expected",
    [
        (
            "005370c00d06415009700000ea6042520340005375a00178",
            "header",
            Header(durable=True, priority=9, ttl=60_000, delivery_count=3),
        ),
        (
            "005373c00f0e" + 14 * "40" + "005375a00178",
            "properties",
            Properties(),
        ),
    ],
)
def test_null_surplus_fields_are_kept(octets: str, attribute: str, expected: Any) -> None:
    message = lenient(bytes.fromhex(octets))
    assert expected == getattr(message, attribute)
    assert octets == message.encode().hex()
    assert ["too-many-fields"] == [violation.rule for violation in message.violations]


def test_fields_of_wrong_types_are_kept() -> None:
    # to is a uint, and a fifteenth field follows
    octets = "005373c0130f 4040 5205" + 11 * "40" + "a10178 00537740"
    message: Any = lenient(bytes.fromhex(octets))
    expected: Any = Properties()
    expected.to = UInt(5)
    assert expected == message.properties
    assert UInt is type(message.properties.to)
    message.properties.subject = expected.subject = "s"
    assert expected == lenient(message.encode()).properties


@pytest.mark.parametrize(
    "descriptor", ["a3 01 e9", "a1 01 ff", "c0 02 01 3f", "e0 01 00", "c0 01 00"]
)
def test_malformed_descriptor_is_an_unknown_section(descriptor: str) -> None:
    octets = bytes.fromhex(f"00 53 70 45 00 {descriptor} 45 00 53 77 40")
    message = lenient(octets)
    assert octets == message.encode()
    assert ["header", "unknown", "amqp-value"] == [name for name, _ in message.sections()]
    assert ["header", "unknown", "amqp-value"] == [part.name for part in scan(octets)]
    with pytest.raises(DecodeError) as refused:
        Message.decode(octets)
    assert refused.value.rule in {"symbol-not-ascii", "invalid-utf8", "unknown-section"} | {
        "unknown-constructor",
        "array-without-constructor",
    }


@pytest.mark.parametrize(
    "octets, rule",
    [
        ("005375a0050000", "truncated"),
        ("0053773f", "unknown-constructor"),
        ("005377f00000000501000040", "truncated"),
    ],
)
def test_section_of_unknown_size_extends_to_the_end(octets: str, rule: str) -> None:
    cut, before = bytes.fromhex(octets), bytes.fromhex("00537045")
    with pytest.raises(DecodeError) as refused:
        lenient(cut)  # nothing parses
    assert (cut, rule) == (refused.value.data, refused.value.rule)

    message = lenient(before + cut)

    assert (Header(), None) == (message.header, message.body)
    (_, (name, rest)) = message.sections()
    assert isinstance(rest, Malformed)
    assert (cut, rule) == (rest.data, rest.error.rule)
    assert name == ("data" if octets.startswith("005375") else "amqp-value")
    assert before + cut == message.encode()
    assert any(rule.startswith(violation.rule) for violation in message.violations)
    # What is added stands before it, as it would be a part of it otherwise.
    more = lenient(
        message.evolve(footer={"x-opt-a": 1}, properties=Properties(subject="s")).encode()
    )
    assert (Header(), "s", {"x-opt-a": 1}) == (
        more.header,
        more.properties and more.properties.subject,
        more.footer,
    )
    assert more.encode().endswith(cut)
    # And what is set in its place, in its place.
    assert Message(b"new", header=Header()) == Message.decode(message.evolve(body=b"new").encode())


@pytest.mark.parametrize("octets", ["404d", "01", "ff", "00531045ff", "4000"])
def test_bytes_without_a_section_are_refused(octets: str) -> None:
    with pytest.raises(DecodeError):
        lenient(bytes.fromhex(octets))


@pytest.mark.parametrize("after", ["01", "00", "ff", "0053", "a0"])
def test_message_followed_by_other_bytes_is_read(after: str) -> None:
    octets = Message("body", header=Header(priority=3), footer={"x-opt-a": 1}).encode()
    message = lenient(octets + bytes.fromhex(after))

    assert Message.decode(octets).bare == message.bare
    assert ("body", Header(priority=3), {"x-opt-a": 1}) == (
        message.text(),
        message.header,
        message.footer,
    )
    assert ("unknown", bytes.fromhex(after)) == (
        message.sections()[-1][0],
        message.sections()[-1][1].data,
    )
    assert [] != list(message.violations)
    for write, read in ((to_typed, from_typed), (to_plain, from_plain)):
        assert message.encode() == read(write(message)).encode()


@pytest.mark.parametrize("limits", [Limits(items=8), Limits(depth=2)])
def test_lenient_decoding_enforces_limits_before_a_truncation(limits: Limits) -> None:
    octets = Message([[[1, 2]], 3, 4, 5], header=Header()).encode() + b"\x01"
    with pytest.raises(DecodeError, match="limit"):
        Message.decode(octets, strict=False, limits=limits)


def test_faulty_sections_share_the_limits() -> None:
    # An array of 1,700 nulls that take no bytes, then a fault. An input of 23 bytes may have 1,727
    # such elements, and one of twice the size 3,199.
    bad = bytes.fromhex(
        "005377 d0 00000010 00000002 f0 00000005 000006a4 40 56 02".replace(" ", "")
    )
    assert isinstance(lenient(bad).sections()[0][1], Malformed)
    with pytest.raises(DecodeError, match="zero-width limit"):
        lenient(bad + bad)


@given(messages.flatmap(lambda parts: st.tuples(*map(encodings, parts))).map(b"".join), st.data())
def test_any_mutation_is_refused_with_its_bytes_or_kept(octets: bytes, data: st.DataObject) -> None:
    changed = data.draw(mutated(octets))
    message = lenient_or_none(changed)
    if message is None:
        return
    assert changed == message.encode()
    with contextlib.suppress(DecodeError):  # a section is cut
        assert sum(1 for _ in scan(changed)) == len(message.sections())
    assert validate(changed) == list(message.violations)
    evolved = lenient(message.evolve(header=Header(priority=1)).encode())
    assert evolved.header is not None
    try:
        strict = Message.decode(changed)
    except DecodeError:
        return
    assert strict == message
    assert all(not isinstance(part, Malformed) for _, part in message.sections())


# Delivery states and termini.


def unchecked(cls: Any, *values: object) -> Any:
    """Return a composite with values that its constructor refuses, as lenient decoding does."""
    result = object.__new__(cls)
    for field, value in zip(attrs.fields(cls), values, strict=True):
        object.__setattr__(result, field.name, value)
    return result


@pytest.mark.parametrize(
    "octets, expected",
    [
        # string keys in info, as go-amqp writes them
        (
            "005325 c01501 00531d c00f03 a30163 40 c10802 a1046d6f7265 41",
            Rejected(Error("c", info={"more": True})),
        ),
        # an error without its condition, with a surplus field
        ("005325 c00b01 00531d c00504 40404041", Rejected(unchecked(Error, None, None, None))),
        # a modified whose field is no boolean, and a received that lacks what it must have
        ("005327 c00301 5001", unchecked(Modified, UByte(1), False, None)),
        ("005323 45", unchecked(Received, None, None)),
        # durable is no choice of terminus-durability, timeout a string
        (
            "005328 c00a04 a10161 5207 40 a10178",
            Source(address="a", durable=UInt(7), timeout="x"),  # type: ignore[arg-type]
        ),
    ],
)
def test_invalid_delivery_states_decode_leniently(octets: str, expected: Any) -> None:
    data = bytes.fromhex(octets)
    with pytest.raises(DecodeError):
        delivery.decode(data)
    assert expected == delivery.decode(data, strict=False)


def test_malformed_delivery_state_is_refused() -> None:
    for octets in ("005325 c00901 00531d c00301 a301ff", "005377 40", "0053"):
        for strict in (True, False):
            with pytest.raises(DecodeError):
                delivery.decode(bytes.fromhex(octets), strict=strict)


@given(delivery_states())
def test_lenient_and_strict_delivery_states_agree(state: Any) -> None:
    data = delivery.encode(state)
    strict, lenient = (delivery.decode(data, strict=strict) for strict in (True, False))
    assert (type(strict), repr(strict)) == (type(lenient), repr(lenient))
    assert delivery.encode(strict) == delivery.encode(lenient)
