"""The residual of the lossless profile: what is damaged, forged or whole."""

from __future__ import annotations

import base64
from contextlib import suppress
from typing import Any
from unittest import mock

import attrs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from amqp10msg import (
    Data,
    DecodeError,
    Int,
    Message,
    Properties,
    Symbol,
    ULong,
    encode_value,
    validate,
)
from amqp10msg.basic import (
    BasicMessage,
    BasicProperties,
    FieldArray,
    FieldTable,
    ScaledDecimal,
)
from amqp10msg.testing import composites, malformed, messages, mutated, simple_values, values
from amqp10msg.translate import PROFILES, TranslationError, as_published, to_amqp10, to_basic
from amqp10msg.translate.residual import (
    RESIDUAL_NAME,
    count_padded_fields,
    pack,
    pack_text,
    pad_with_nulls,
    unpack,
    unpack_text,
)
from tests.effort import cost
from tests.lossless import octets_of, sent


def damaged() -> list[Any]:
    good = pack({14: b"x"})
    return [
        b"",
        b"\x83",
        b"\xa0",
        good[:-1],
        good + b"\0",
        good[:3] + b"\xff" + good[4:],
        b"\x83\x02" + good[2:],
        pack({14: b"x"}).replace(b"x", b"y"),
        "text",
        5,
    ]


@pytest.mark.parametrize("value", damaged())
def test_a_damaged_residual_in_1_0_is_reported_and_kept(value: Any) -> None:
    message = Message(b"", message_annotations={RESIDUAL_NAME: value})
    made = to_basic(message)

    assert f"message-annotations[{RESIDUAL_NAME!r}]" in {loss.path for loss in made.losses}
    assert message.encode() == to_amqp10(sent(made.message)).message.encode()


@pytest.mark.parametrize(
    "letter, value",
    [
        ("S", ""),
        ("S", "!!!!"),
        ("S", "é"),
        ("S", pack_text({0x78: b"\0\x53\x78\xc1\1\0"})[:-4]),
        ("S", pack_text({0x79: b""})),
        ("S", pack_text({0x70: 5})),
        ("S", pack_text({0x73: b"\0\x53\x73\xff"})),
        ("S", pack_text({0: b"\xff"})),
        ("S", pack_text({0x75: [b"junk"]})),
        ("x", b"\x83\1\xa0\0"),
        ("I", 5),
    ],
)
def test_a_damaged_residual_in_0_9_1_is_reported_and_kept(letter: str, value: Any) -> None:
    properties = BasicProperties(
        headers=FieldTable.of([("a", "I", 1), (RESIDUAL_NAME, letter, value)])
    )
    basic = BasicMessage(properties, b"x")
    made = to_amqp10(basic)

    assert f"headers[{RESIDUAL_NAME!r}]" in {loss.path for loss in made.losses}
    assert [] == validate(made.message)
    assert octets_of(basic) == octets_of(to_basic(Message.decode(made.message.encode())).message)


@given(st.binary(max_size=40))
def test_any_octets_as_a_residual(octets: bytes) -> None:
    text = base64.b64encode(octets).decode()
    to_basic(Message(b"", message_annotations={RESIDUAL_NAME: octets}))
    to_amqp10(BasicMessage(BasicProperties(headers={RESIDUAL_NAME: text})))


@given(
    st.text("abc", max_size=4),
    st.integers(0, 200),
    st.characters(max_codepoint=0x17F) | st.sampled_from("=AQgw+/-_ \n"),
    st.integers(0, 4),
)
@example("", 0, "=", 0)
def test_engine_reads_an_edited_residual_like_the_plain_rules(
    address: str, place: int, char: str, cut: int
) -> None:
    message = Message(b"x", properties=Properties(to=address, subject="s"))
    table = to_basic(Message.decode(message.encode())).message.properties.headers
    assert isinstance(table, FieldTable)
    *entries, (name, letter, text) = table.entries
    place = min(place, len(text) - 1)
    edited = (text[:place] + char + text[place + 1 :])[: len(text) - cut]
    headers = FieldTable.of([*entries, (name, letter, edited)])
    basic = BasicMessage(BasicProperties(headers=headers), b"x")
    with mock.patch("amqp10msg.translate._lossless.translate_by_engine", return_value=None):
        expected = to_amqp10(basic)

    found = to_amqp10(basic)

    assert name == RESIDUAL_NAME
    assert expected.message.encode() == found.message.encode()
    assert repr(expected.losses) == repr(found.losses)


_RESIDUALS = st.dictionaries(
    st.integers(0, 30) | st.sampled_from([0x70, 0x72, 0x73, 0x74, 0x75, 0x78, 0x173, 0x174]),
    st.recursive(
        st.binary(max_size=8) | st.integers(0, 2**64 - 1) | st.text(max_size=3) | st.none(),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.integers(0, 15) | st.text(max_size=3), inner, max_size=3)
        ),
        max_leaves=4,
    ),
    max_size=4,
)


@given(_RESIDUALS)
def test_a_forged_residual_raises_nothing(content: dict[int, Any]) -> None:
    message = Message(b"abc", message_annotations={RESIDUAL_NAME: pack(content)})
    to_basic(message)
    basic = BasicMessage(BasicProperties(headers={RESIDUAL_NAME: pack_text(content)}), b"abc")
    validated = to_amqp10(basic).message

    Message.decode(validated.encode(), strict=False)


@given(_RESIDUALS)
def test_residual_round_trips(content: dict[int, Any]) -> None:
    assert content == unpack(pack(content))
    assert content == unpack_text(pack_text(content))


@given(_RESIDUALS)
def test_the_residual_is_deterministic_cbor(content: dict[int, Any]) -> None:
    cbor2 = pytest.importorskip("cbor2")
    octets = pack(content)

    assert octets == cbor2.dumps(cbor2.loads(octets), canonical=True) or _unsorted(content)
    assert content == cbor2.loads(octets)[1]


def _unsorted(content: Any) -> bool:
    """Whether RFC 7049's order, which cbor2 calls canonical, is another: shorter keys first."""
    if isinstance(content, dict):
        return True
    return isinstance(content, list) and any(map(_unsorted, content))


def residual_of(basic: BasicMessage) -> Any:
    """What a 0-9-1 message carries along, {} for nothing."""
    return unpack_text(dict(basic.properties.headers or {}).get(RESIDUAL_NAME, "")) or {}


@given(composites(Properties), st.integers(1, 13))
def test_nulls_behind_the_last_field_are_one_number(given_: Properties, fields: int) -> None:
    """RabbitMQ 4 writes thirteen fields, whatever they hold."""
    canonical = encode_value(given_)
    octets = pad_with_nulls(canonical, fields)
    before = residual_of(to_basic(Message(b"", properties=given_)).message)
    made = to_basic(Message.decode(octets + Message(b"").encode()))
    kept = residual_of(made.message)
    back = to_amqp10(sent(made.message)).message

    assert octets + Message(b"").encode() == back.encode()
    if octets != canonical and 0x73 not in before and 0 not in before:
        nulls = {fields - 1: b"\x40"}
        assert before | {0x173: before.get(0x173, {}) | nulls} == kept
        assert fields == count_padded_fields(octets, canonical)


def test_trailing_nulls_do_not_override_edited_properties() -> None:
    octets = pad_with_nulls(encode_value(Properties(message_id="m-1")), 13)
    basic = sent(to_basic(Message.decode(octets + Message(b"").encode())).message)
    basic.properties.message_id = "m-2"
    basic.properties.content_type = "text/plain"
    back = to_amqp10(basic)
    expected = Properties(message_id="m-2", content_type="text/plain")

    assert () == back.losses
    assert (
        pad_with_nulls(encode_value(expected), 13) + Message(b"").encode() == back.message.encode()
    )


def test_nulls_that_a_broker_adds_to_what_was_0_9_1_are_not_of_it() -> None:
    basic = BasicMessage(BasicProperties(message_id="m-1", headers={"tags": ["a", "b"]}))
    message = to_amqp10(basic).message
    octets = message.encode().replace(
        encode_value(message.properties), pad_with_nulls(encode_value(message.properties), 13)
    )
    back = to_basic(Message.decode(octets)).message

    assert octets_of(sent(basic)) == octets_of(sent(back))


@pytest.mark.parametrize("name", ["x-stream-offset", "x-delivery-count", "x-acquired-count"])
@pytest.mark.parametrize("letter, value", [("S", "v"), ("t", True), ("T", 5), ("I", 5)])
def test_a_header_that_only_has_a_name_of_rabbitmq_comes_back(
    name: str, letter: str, value: Any
) -> None:
    # What RabbitMQ adds under such a name is a long, and no part of the message.
    headers = FieldTable.of([("a", "I", 1), (name, letter, value)])
    basic = BasicMessage(BasicProperties(headers=headers), b"x", "orders", "created")

    made = to_amqp10(basic)

    assert [] == [loss for loss in made.losses if not loss.recoverable]
    assert octets_of(basic) == octets_of(to_basic(made.message).message)


#: Names that RabbitMQ gives to nothing, and to what it says of dead letters.
NAMES = st.sampled_from(["x-opt-c", "abc", "x-basic-foo", "x-cc", "x-last-death-count"])


@pytest.mark.parametrize("names", [("x-a", "x-opt-x-a"), ("x-opt-x-a", "x-a")])
def test_annotations_that_share_the_name_of_a_header(names: tuple[str, str]) -> None:
    message = Message(b"x", message_annotations=dict(zip(names, ("first", "second"), strict=True)))
    made = to_basic(message)

    headers = made.message.properties.headers
    assert isinstance(headers, FieldTable)
    assert [("x-a", "S", "first")] == headers.entries[:-1]
    carried = [loss.path for loss in made.losses if loss.action == "carried"]
    assert [f"message-annotations['{names[1]}']"] == carried
    assert message.encode() == to_amqp10(sent(made.message)).message.encode()


@given(st.dictionaries(NAMES, values(), max_size=3))
def test_republished_message_keeps_every_annotation(
    annotations: dict[str, Any],
) -> None:
    """RabbitMQ 4.3 puts its own annotations first, which the residual says, and no more of it."""
    front = {"x-routing-key": "k", "x-exchange": "e"}
    message = Message(b"x", message_annotations={**front, **annotations})
    header = bytes.fromhex("005370c006054240404143")
    basic = to_basic(Message.decode(header + message.encode())).message
    found: Any = to_amqp10(as_published(basic)).message.message_annotations or {}

    assert {key: encode_value(value) for key, value in annotations.items()} == {
        str(key): encode_value(value) for key, value in found.items() if key not in front
    }


def annotated(content: dict[int, Any], count: int) -> Message:
    """A message with so many application properties and annotations, and this residual."""
    names = [str(number) for number in range(count)]
    annotations: dict[Any, Any] = {Symbol(f"x-opt-{name}"): 1 for name in names}
    if content:
        annotations[Symbol(RESIDUAL_NAME)] = pack(content)
    properties = {f"x-{name}": 1 for name in names} | dict.fromkeys(names, 1)
    return Message(b"", message_annotations=annotations, application_properties=properties)


def test_properties_that_begin_like_annotations_cost_no_more_for_many_of_these() -> None:
    message = annotated({}, 2_000)

    assert cost(lambda: to_basic(message), 1_000) < 1_000


def test_many_remembered_fields_of_many_headers() -> None:
    fields = {str(number): b"L" + bytes(7) + b"\1" for number in range(8_000)}
    properties = dict.fromkeys(fields, 1)
    annotations: Any = {Symbol(RESIDUAL_NAME): pack({16: fields})}
    message = Message(b"", message_annotations=annotations, application_properties=properties)
    basic = to_basic(message).message

    assert set("L") == {letter for _, letter, _ in basic.properties.headers.entries}  # type: ignore[union-attr]  # there are headers
    assert cost(lambda: to_basic(message), 600) < 600


def test_residual_with_colliding_keys_is_rejected() -> None:
    """Heads of more than 64 bits hold any many of them, and a dict of them is quadratic."""
    keys = b"".join(b"\x1c" + (n * (2**61 - 1)).to_bytes(16, "big") + b"\0" for n in range(8_000))
    octets = b"\x83\x01\xb9" + (8_000).to_bytes(2, "big") + keys + b"\0"

    assert unpack(octets) is None
    assert cost(lambda: unpack(octets), 100) < 100


def test_many_headers_without_a_place_that_were_added_since() -> None:
    added = [(str(number), "A", FieldArray.of([])) for number in range(9_000)]
    table = FieldTable.of(added)
    table.entries.append((RESIDUAL_NAME, "S", pack_text({1: 5})))
    basic = BasicMessage(BasicProperties(headers=table), b"x")

    assert len(added) == len(to_amqp10(basic).losses)
    assert cost(lambda: to_amqp10(basic).losses, 500) < 500


@pytest.mark.parametrize("places", [[0, 0], [1, 0], [5, 5]])
def test_residual_with_unsorted_positions_is_rejected(places: list[int]) -> None:
    annotations: Any = {
        Symbol("x-opt-a"): 1,
        Symbol("x-opt-b"): 2,
        Symbol(RESIDUAL_NAME): pack({17: places}),
    }
    message = Message(b"", message_annotations=annotations, application_properties={"c": 3})
    made = to_basic(message)

    assert f"message-annotations[{RESIDUAL_NAME!r}]" in {loss.path for loss in made.losses}
    assert message.encode() == to_amqp10(sent(made.message)).message.encode()


@pytest.mark.parametrize(
    "places, names",
    [
        ([], "cdab"),
        ([0], "acdb"),
        ([1, 2], "cabd"),
        ([0, 3], "acdb"),
        ([0, 1, 2], "abcd"),
        ([7, 9], "cdab"),
    ],
)
def test_positions_of_the_headers_that_begin_with_x(places: list[int], names: str) -> None:
    annotations: Any = {
        Symbol("x-opt-a"): 1,
        Symbol("x-opt-b"): 2,
        Symbol(RESIDUAL_NAME): pack({17: places}),
    }
    properties = {"c": 3, "d": 4}
    message = Message(b"", message_annotations=annotations, application_properties=properties)
    table = to_basic(message).message.properties.headers

    assert list(names) == [name[-1] for name in table or ()]


def edited(message: Message, entries: list[Any], **properties: Any) -> BasicMessage:
    """A message of class basic that was one of 1.0, with other headers and properties."""
    basic = to_basic(message).message
    table: Any = basic.properties.headers
    names = {entry[0] for entry in entries}
    rest = [entry for entry in table.entries if entry[0] not in names]
    headers = FieldTable.of([*entries, *rest])
    return sent(
        attrs.evolve(
            basic, properties=attrs.evolve(basic.properties, headers=headers, **properties)
        )
    )


@pytest.mark.parametrize("annotations", [None, {5: 1}, {"x-opt-a": Symbol("s")}])
@pytest.mark.parametrize(
    "entry",
    [
        ("n", "L", 5),
        ("n", "A", FieldArray.of([("I", 1)])),
        ("n", "S", "\udcff"),
        ("x-opt-a", "L", 5),
        ("x-opt-a", "V", None),
        ("x-opt-a", "D", ScaledDecimal(1, 5)),
        ("u", "L", 5),
        ("u", "A", FieldArray.of([])),
    ],
)
def test_edit_that_1_0_cannot_express_is_restored(annotations: Any, entry: Any) -> None:
    properties = {"u": ULong(7), "v": ULong(8)}
    message = Message(b"x", message_annotations=annotations, application_properties=properties)
    basic = edited(message, [entry], expiration="007")
    made = to_amqp10(basic)
    back = to_basic(Message.decode(made.message.encode())).message.properties

    assert {f"headers[{entry[0]!r}]", "properties.expiration"} <= {
        loss.path for loss in made.losses if loss.recoverable
    }
    assert "007" == back.expiration
    assert [entry] == [one for one in back.headers.entries if one[0] == entry[0]]  # type: ignore[union-attr]  # there are headers


def test_an_edit_of_a_header_that_stands_where_the_rules_do_not_put_it() -> None:
    message = Message(b"x", application_properties={"x-b": ULong(7), "x-\u00e9": ULong(8)})
    for name in ("x-b", "x-\u00e9"):
        made = to_amqp10(edited(message, [(name, "L", 5)]))

        assert [(f"headers[{name!r}]", "retyped", False)] == [
            (loss.path, loss.action, loss.recoverable) for loss in made.losses
        ]
        assert 5 == made.message.application_property(name)


@pytest.mark.parametrize("number", [5, 500])
@pytest.mark.parametrize("name", ["n", "x-n"])
def test_changed_type_letter_counts_as_an_edit(name: str, number: int) -> None:
    """Of what stands in another encoding in the residual: 5 is one object as "l" and as "L"."""
    code, key = (0x74, b"\xa1") if name == "n" else (0x72, b"\xa3")
    entry = key + bytes([len(name)]) + name.encode() + b"\x81" + number.to_bytes(8, "big")
    wide = b"\xd1" + (len(entry) + 4).to_bytes(4, "big") + (2).to_bytes(4, "big") + entry
    message = Message.decode(b"\0\x53" + bytes([code]) + wide + b"\0\x53\x75\xa0\1x")
    properties = to_basic(message).message.properties
    entries = [
        (one, "L" if one == name else letter, value)
        for one, letter, value in properties.headers.entries  # type: ignore[union-attr]  # there are headers
    ]
    made = to_amqp10(BasicMessage(attrs.evolve(properties, headers=FieldTable.of(entries)), b"x"))
    back = to_basic(Message.decode(made.message.encode())).message.properties.headers

    (loss,) = made.losses
    assert (f"headers[{name!r}]", "retyped") == (loss.path, loss.action)
    assert loss.recoverable is ((name, "L", number) in back.entries)  # type: ignore[union-attr]  # there are headers


def test_added_duplicate_header_is_restored() -> None:
    message = Message(b"x", message_annotations={"x-opt-a": 1, 5: 1})
    entries = [("x-opt-a", "l", 1), ("x-opt-a", "I", 9)]
    made = to_amqp10(edited(message, entries))
    back = to_basic(Message.decode(made.message.encode())).message.properties.headers

    assert ["headers['x-opt-a']"] == [loss.path for loss in made.losses]
    assert entries == [one for one in back.entries if one[0] == "x-opt-a"]  # type: ignore[union-attr]  # there are headers


def test_a_property_in_the_place_of_a_header_that_had_none() -> None:
    table = FieldTable.of([("b", "I", 1), ("a", "A", FieldArray.of([]))])
    message = to_amqp10(BasicMessage(BasicProperties(headers=table))).message
    changed = message.evolve(application_properties={"b": Int(1), "a": "new"})

    assert [("b", "I", 1), ("a", "S", "new")] == to_basic(
        changed
    ).message.properties.headers.entries  # type: ignore[union-attr]  # there are headers


def test_removed_annotation_is_not_restored() -> None:
    message = to_amqp10(BasicMessage(BasicProperties(app_id="a\0", type="t\0"))).message
    annotations = dict(message.message_annotations or {})
    del annotations[Symbol("x-opt-basic-app-id")]
    made = to_basic(message.evolve(message_annotations=annotations))

    assert (None, "t\0") == (made.message.properties.app_id, made.message.properties.type)
    assert "properties.app-id" in {loss.path for loss in made.losses}


@pytest.mark.parametrize("name", ["delivery_annotations", "message_annotations", "footer"])
def test_values_nested_as_deeply_as_decoding_allows(name: str) -> None:
    value: Any = 1
    for _ in range(255):
        value = [value]
    sections: dict[str, Any] = {name: {Symbol("x-opt-a"): value}}
    wire = Message(b"x", **sections).encode()
    message = Message.decode(wire)

    assert wire == to_amqp10(sent(to_basic(message).message)).message.encode()


@pytest.mark.parametrize("body", [[Data(b"a"), Data(b"b")], None])
def test_parts_of_a_body_that_a_residual_of_0_9_1_does_not_keep_are_lost(body: Any) -> None:
    edited = to_amqp10(BasicMessage(BasicProperties(expiration=""))).message.evolve(body=body)
    made = to_basic(edited)

    assert to_amqp10(made.message).message.body != edited.body
    assert [False] == [loss.recoverable for loss in made.losses if loss.path == "body"]


def test_properties_in_another_encoding_that_0_9_1_has_not_are_kept_beside_a_residual() -> None:
    sent = to_amqp10(BasicMessage(BasicProperties(expiration=""))).message
    edited = sent.evolve(properties=Properties(group_id="g")).encode()
    short = edited[edited.index(b"\0\x53\x73") + 3 :]
    size, count = short[1:3]
    wide = b"\xd0" + (size + 3).to_bytes(4) + count.to_bytes(4)
    made = to_basic(Message.decode(edited.replace(short[:3], wide)))

    assert to_amqp10(made.message).message.encode() == edited


#: Of headers and properties added to them: as annotations are called, too, and as brokers' facts.
_KEYS = st.sampled_from(["b", "x-b", "x-opt-b", "x-opt-x-b", "x-delay", "x-exchange", "CC"])


@given(
    st.lists(st.tuples(_KEYS, st.sampled_from([("L", 7), ("S", "v"), ("A", FieldArray.of([]))]))),
    st.dictionaries(_KEYS, simple_values(), min_size=1, max_size=3),
    st.booleans(),
)
def test_added_properties_are_restored_or_reported_as_lost(
    headers: list[Any], added: dict[str, Any], is_wide: bool
) -> None:
    table = FieldTable.of([(name, *field) for name, field in headers])
    sent = to_amqp10(BasicMessage(BasicProperties(headers=table, expiration=""), b"x")).message
    edited = sent.evolve(application_properties={**(sent.application_properties or {}), **added})
    if is_wide:
        edited = Message.decode(widened(edited.encode()))
    made = to_basic(edited)
    back: Any = to_amqp10(made.message).message.application_properties or {}
    lost = {loss.path for loss in made.losses if not loss.recoverable}

    assert [] == [
        (key, value, back.get(key))
        for key, value in added.items()
        if not (key in back and encode_value(value) == encode_value(back[key]))
        and f"application-properties[{key!r}]" not in lost
    ]


def widened(wire: bytes) -> bytes:
    """A message whose application properties have a size of 32 bits."""
    place = wire.index(b"\0\x53\x74") + 3
    if wire[place] != 0xC1:
        return wire
    size, count = wire[place + 1 : place + 3]
    head = b"\xd1" + (size + 3).to_bytes(4, "big") + count.to_bytes(4, "big")
    return wire[:place] + head + wire[place + 3 :]


@pytest.mark.parametrize("kept", [True, False])
def test_a_header_that_was_taken_away_goes_with_the_others_of_its_name(kept: bool) -> None:
    table = FieldTable.of([("a", "I", 1), ("a", "I", 2)])
    sent = to_amqp10(BasicMessage(BasicProperties(headers=table))).message
    edited = sent if kept else sent.evolve(application_properties=None)
    expected = table if kept else None

    assert expected == to_basic(edited).message.properties.headers


#: The last section has no end that could be found: one of them after sections that can be read.
WITHOUT_END = ["0053754500", "00537040005375a0", "005374c10400000000", "005375a00178005377d0"]


@pytest.mark.parametrize("octets", WITHOUT_END)
@pytest.mark.parametrize("profile", PROFILES)
def test_leniently_decoded_message_is_carried_whole_or_refused(octets: str, profile: Any) -> None:
    message = Message.decode(bytes.fromhex(octets), strict=False)
    try:
        made = to_basic(message, profile)
    except TranslationError:
        assert profile != "lossless"
        return

    assert profile != "lossless" or octets == to_amqp10(made.message).message.encode().hex()


@given(malformed() | messages().map(Message.encode).flatmap(mutated))
def test_any_leniently_decoded_message_is_carried_whole_or_refused(octets: bytes) -> None:
    try:
        message = Message.decode(octets, strict=False)
    except DecodeError:
        return
    made = to_basic(message)

    if all(loss.recoverable for loss in made.losses):
        assert octets == to_amqp10(made.message).message.encode()
    for profile in PROFILES.values():
        with suppress(TranslationError):
            to_basic(message, profile)
