"""python-qpid-proton and this library read the same messages: every field, every AMQP type.

A message that proton decodes and encodes again without loss is the same to both. Generated messages
are made of what proton keeps, so that all of them must agree; recorded ones are asked whether
proton keeps them. The types of proton are compared by a table of this file, not by the library's
own conversion, which is tested here too.
"""

from __future__ import annotations

import gzip
import json
import os
import struct
import uuid
from functools import cache
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import event, example, given
from hypothesis import strategies as st

from amqp10msg import (
    AmqpError,
    AmqpMap,
    AmqpSequence,
    AmqpValue,
    Array,
    Byte,
    Char,
    Data,
    Decimal32,
    Decimal64,
    Decimal128,
    DecodeError,
    Described,
    EncodeError,
    Float,
    Header,
    Int,
    Message,
    Properties,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
    decode_value,
    encode_value,
    skip_value,
)
from amqp10msg.primitives import identical
from bench.messages import GENERAL, GENERAL_VALUE, REFERENCE

proton = pytest.importorskip("proton", reason="needs python-qpid-proton")

from amqp10msg.proton import convert, from_proton, losses, to_proton  # noqa: E402  (needs proton)

# Comparing, by proton's own accessors.

TYPES: dict[type, type] = {
    type(None): type(None),
    bool: bool,
    UByte: proton.ubyte,
    UShort: proton.ushort,
    UInt: proton.uint,
    ULong: proton.ulong,
    Byte: proton.byte,
    Short: proton.short,
    Int: proton.int32,
    int: int,
    Float: proton.float32,
    float: float,
    Decimal32: proton.decimal32,
    Decimal64: proton.decimal64,
    Decimal128: proton.decimal128,
    Char: proton.char,
    Timestamp: proton.timestamp,
    uuid.UUID: uuid.UUID,
    str: str,
    Symbol: proton.symbol,
    Described: proton.Described,
    Array: proton.Array,
}
ARRAY_TYPES = {"bool": "boolean"}


def same(ours: Any, theirs: Any) -> bool:
    """Tell whether proton's Python value has our value's AMQP type and says the same."""
    if isinstance(ours, bytes):
        return isinstance(theirs, (bytes, memoryview)) and ours == bytes(theirs)
    if isinstance(ours, list):
        return type(theirs) is list and same_all(ours, theirs)
    if isinstance(ours, dict):
        return (
            isinstance(theirs, dict)
            and same_all(list(ours), list(theirs))
            and same_all(list(ours.values()), list(theirs.values()))
        )
    if not same_type(ours, theirs):
        return False
    if isinstance(ours, Described):
        return same(ours.descriptor, theirs.descriptor) and same(ours.value, theirs.value)
    if isinstance(ours, Array):
        name = proton.Data.type_names[theirs.type]
        described = theirs.descriptor is not proton.UNDESCRIBED
        return (
            ours.type == ARRAY_TYPES.get(name, name)
            and same_all(list(ours.descriptors), [theirs.descriptor] if described else [])
            and same_all(ours.values, list(theirs.elements))
        )
    if isinstance(ours, Float):
        return struct.pack(">I", ours.bits) == struct.pack(">f", theirs)
    if isinstance(ours, float):
        return struct.pack(">d", ours) == struct.pack(">d", theirs)
    if isinstance(ours, (Decimal32, Decimal64)):
        return ours.bits == int(theirs)
    if isinstance(ours, Decimal128):
        return ours.bits.to_bytes(16, "big") == bytes(theirs)
    if isinstance(ours, int):
        return int(ours) == int(theirs)
    return bool(ours == theirs)


def same_type(ours: Any, theirs: Any) -> bool:
    return TYPES.get(type(ours)) is type(theirs)


def same_all(ours: list[Any], theirs: list[Any]) -> bool:
    return len(ours) == len(theirs) and all(map(same, ours, theirs))


def same_id(ours: Any, theirs: Any) -> bool:
    # Proton shows the ulong of an id as a plain int.
    return same(ours, proton.ulong(theirs) if type(theirs) is int else theirs)


def disagreements(message: Message, theirs: Any) -> list[str]:
    """Name the fields that proton's accessors show otherwise."""
    header = message.header or Header()
    properties = message.properties or Properties()
    body = message.body
    content: Any = None
    if isinstance(body, Data):
        content = body.data
    elif isinstance(body, AmqpSequence):
        content = body.values
    elif isinstance(body, AmqpValue):
        content = body.value
    agreed = {
        "durable": header.durable is theirs.durable,
        "priority": header.priority == theirs.priority,
        "ttl": float(header.ttl or 0) / 1000 == theirs.ttl,
        "first-acquirer": header.first_acquirer is theirs.first_acquirer,
        "delivery-count": header.delivery_count == theirs.delivery_count,
        "delivery-annotations": same(message.delivery_annotations, theirs.instructions),
        "message-annotations": same(message.message_annotations, theirs.annotations),
        "message-id": same_id(properties.message_id, theirs.id),
        "user-id": (properties.user_id or b"") == theirs.user_id,
        "to": properties.to == theirs.address,
        "subject": properties.subject == theirs.subject,
        "reply-to": properties.reply_to == theirs.reply_to,
        "correlation-id": same_id(properties.correlation_id, theirs.correlation_id),
        # An absent symbol is the symbol "None" to proton.
        "content-type": str(properties.content_type) == theirs.content_type,
        "content-encoding": str(properties.content_encoding) == theirs.content_encoding,
        "absolute-expiry-time": (properties.absolute_expiry_time or 0) / 1000 == theirs.expiry_time,
        "creation-time": (properties.creation_time or 0) / 1000 == theirs.creation_time,
        "group-id": properties.group_id == theirs.group_id,
        "group-sequence": (properties.group_sequence or 0) == theirs.group_sequence,
        "reply-to-group-id": properties.reply_to_group_id == theirs.reply_to_group_id,
        "application-properties": same(message.application_properties, theirs.properties),
        "inferred": isinstance(body, (Data, AmqpSequence)) is theirs.inferred,
        "body": same(content, theirs.body),
    }
    return [name for name, agrees in agreed.items() if not agrees]


def said(message: Message) -> dict[str, Any]:
    """List what a message says, with absent and empty header and properties taken for the same."""
    found = {name: getattr(message, name) for name in ("header", "properties", "footer", "body")}
    if found["header"] == Header():
        found["header"] = None
    if found["properties"] == Properties():
        found["properties"] = None
    for name in ("delivery_annotations", "message_annotations", "application_properties"):
        found[name] = getattr(message, name)
    return found


def same_message(one: Message, other: Message) -> bool:
    """Compare by value and AMQP type; encodings, also of arrays, are free."""
    return all(identical(as_values(a), as_values(said(other)[n])) for n, a in said(one).items())


def as_values(section: Any) -> Any:
    if isinstance(section, list):
        return [as_values(part) for part in section]
    if isinstance(section, (Data, AmqpSequence, AmqpValue, Header, Properties)):
        fields = attrs.fields(type(section))
        return [type(section).__name__, *(getattr(section, field.name) for field in fields)]
    return section


def decoded_by_proton(octets: bytes) -> Any:
    theirs = proton.Message()
    theirs.decode(octets)
    return theirs


# What proton keeps, as values of this library.

RANGES = [UByte, UShort, UInt, ULong, Byte, Short, Int, Timestamp]
integers = {cls: st.integers(cls.min, cls.max).map(cls) for cls in RANGES}
longs = st.integers(-(2**63), 2**63 - 1)
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
ascii_text = st.text(st.characters(max_codepoint=127), max_size=20)
symbols = ascii_text.map(Symbol)
binaries = st.binary(max_size=20)


def quiet(bits: int) -> Float:
    # A signalling NaN does not survive the way through a 64-bit float.
    return Float.from_bits(bits | 0x400000 if bits & 0x7F800000 == 0x7F800000 else bits)


scalars: dict[str, st.SearchStrategy[Any]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "ubyte": integers[UByte],
    "ushort": integers[UShort],
    "uint": integers[UInt],
    "ulong": integers[ULong],
    "byte": integers[Byte],
    "short": integers[Short],
    "int": integers[Int],
    "long": longs,
    "float": st.integers(0, 2**32 - 1).map(quiet),
    "double": st.floats(),
    "decimal32": st.integers(0, 2**32 - 1).map(Decimal32),
    "decimal64": st.integers(0, 2**64 - 1).map(Decimal64),
    "decimal128": st.integers(0, 2**128 - 1).map(Decimal128),
    "char": st.characters(exclude_categories=["Cs"]).map(Char),
    "timestamp": integers[Timestamp],
    "uuid": st.uuids(),
    "binary": binaries,
    "string": text,
    "symbol": symbols,
}
scalar = st.one_of(*scalars.values())
# Distinct in Python however they are typed, and nothing that proton makes a memoryview of.
keys = st.one_of(text, symbols.map(lambda s: Symbol(f"s-{s}")), integers[UInt], st.uuids())
descriptors = st.one_of(integers[ULong], symbols, text, longs)


def arrays(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    elements = {
        **scalars,
        "list": st.lists(values, max_size=3),
        "map": st.dictionaries(keys, values, max_size=3),
        "array": st.integers(-128, 127).map(lambda n: Array("byte", [Byte(n)])),
    }
    return st.sampled_from(sorted(elements)).flatmap(
        lambda name: st.builds(
            Array,
            st.just(name),
            st.lists(elements[name], max_size=4),
            descriptors=st.lists(descriptors, max_size=1),
        )
    )


def compounds(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    # Proton's decoder loses a described value right behind a descriptor.
    bare = values.filter(lambda value: not isinstance(value, Described))
    return st.one_of(
        st.lists(values, max_size=4),
        st.dictionaries(keys, values, max_size=4),
        arrays(values),
        st.builds(Described, descriptors, bare),
    )


values = st.recursive(scalar, compounds, max_leaves=12)
annotation_maps = st.dictionaries(
    st.one_of(symbols, integers[ULong]), st.one_of(scalar, values), max_size=4
)
property_maps = st.dictionaries(text, scalar, max_size=4)
# Proton's attributes are C strings.
c_text = text.map(lambda s: s.replace("\0", "0"))
c_symbols = ascii_text.map(lambda s: s.replace("\0", "0"))
ids = st.one_of(integers[ULong], st.uuids(), binaries, text)
# Proton holds 0 for absent.
times = longs.map(lambda ms: ms or 1)

headers = st.builds(
    Header,
    durable=st.booleans(),
    priority=st.integers(0, 255),
    ttl=st.none() | st.integers(1, 2**32 - 1),
    first_acquirer=st.booleans(),
    delivery_count=st.integers(0, 2**32 - 1),
)


def grouped(properties: Properties) -> Properties:
    # Proton writes a group-sequence exactly if there is a group-id or it is not 0.
    sequence = properties.group_sequence or 0
    properties.group_sequence = sequence if properties.group_id is not None else sequence or None
    return properties


properties = st.builds(
    Properties,
    message_id=st.none() | ids,
    user_id=st.none() | binaries,
    to=st.none() | c_text,
    subject=st.none() | c_text,
    reply_to=st.none() | c_text,
    correlation_id=st.none() | ids,
    content_type=st.none() | c_symbols,
    content_encoding=st.none() | c_symbols,
    absolute_expiry_time=st.none() | times,
    creation_time=st.none() | times,
    group_id=st.none() | c_text,
    group_sequence=st.none() | st.integers(0, 2**32 - 1),
    reply_to_group_id=st.none() | c_text,
).map(grouped)
bodies = st.one_of(
    st.none(),
    st.builds(Data, binaries),
    st.builds(AmqpSequence, st.lists(values, max_size=4)),
    st.builds(AmqpValue, values.filter(lambda value: value is not None)),
)
messages = st.builds(
    Message,
    bodies,
    header=st.none() | headers,
    delivery_annotations=st.none() | annotation_maps,
    message_annotations=st.none() | annotation_maps,
    properties=st.none() | properties,
    application_properties=st.none() | property_maps,
)


def widest(value: Any) -> bytes:
    """Encode a value as wide as Part 1 permits: proton reads those forms by other branches."""
    match value:
        case bool():
            return b"\x56" + bytes([value])
        case UInt():
            return b"\x70" + struct.pack(">I", value)
        case ULong():
            return b"\x80" + struct.pack(">Q", value)
        case Int():
            return b"\x71" + struct.pack(">i", value)
        case Symbol():
            return b"\xb3" + struct.pack(">I", len(value)) + value.encode("ascii")
        case Char():
            return encode_value(value)
        case str():
            return b"\xb1" + struct.pack(">I", len(value.encode())) + value.encode()
        case bytes():
            return b"\xb0" + struct.pack(">I", len(value)) + value
        case list():
            return compound(0xD0, value)
        case dict():
            return compound(0xD1, [item for pair in value.items() for item in pair])
        case Described():
            return b"\0" + widest(value.descriptor) + widest(value.value)
        case int() if type(value) is int:
            return b"\x81" + struct.pack(">q", value)
        case _:
            return encode_value(value)


def compound(code: int, items: list[Any]) -> bytes:
    content = b"".join(map(widest, items))
    return struct.pack(">BII", code, len(content) + 4, len(items)) + content


def widest_message(message: Message) -> bytes:
    """Encode a message of ours section by section as wide as can be."""
    octets = message.encode()
    sections = []
    while octets:
        end = skip_value(octets)
        sections.append(widest(decode_value(octets[:end])))
        octets = octets[end:]
    return b"".join(sections)


# The properties.


@given(messages)
@example(Message())
@example(Message(b""))
@example(Message(AmqpSequence([])))
@example(Message(AmqpValue([]), properties=Properties(content_type="", user_id=b"", subject="")))
def test_what_we_encode_proton_reads_as_we_do(message: Message) -> None:
    octets = message.encode()

    ours, theirs = Message.decode(octets), decoded_by_proton(octets)

    assert [] == disagreements(ours, theirs)
    assert same_message(ours, from_proton(theirs))
    assert same_message(ours, Message.decode(bytes(theirs.encode())))


@given(messages)
def test_wide_encodings_proton_reads_as_we_do(message: Message) -> None:
    octets = widest_message(message)

    ours, theirs = Message.decode(octets), decoded_by_proton(octets)

    assert same_message(message, ours)
    assert [] == disagreements(ours, theirs)
    assert same_message(ours, from_proton(theirs))


@given(messages)
def test_conversion_to_proton_loses_nothing(message: Message) -> None:
    message = Message.decode(message.encode())

    assert () == losses(message)
    theirs = to_proton(message)
    assert [] == disagreements(message, theirs)
    assert same_message(message, from_proton(theirs))
    assert same_message(message, Message.decode(bytes(theirs.encode())))


# What proton does not keep: found, or refused outright.

odd_keys = st.one_of(binaries, scalar, st.lists(scalar, max_size=1), arrays(scalar))
odd_values = st.recursive(
    scalar | st.integers(0, 2**32 - 1).map(Float.from_bits),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(st.tuples(odd_keys, inner), max_size=3).map(AmqpMap),
        st.builds(Described, inner, inner),
        arrays(inner),
        st.builds(
            Array, st.just("long"), st.lists(longs), descriptors=st.lists(symbols, max_size=2)
        ),
    ),
    max_leaves=6,
)
datas = st.builds(Data, binaries)
sequences = st.builds(AmqpSequence, st.lists(odd_values, max_size=2))
odd_messages = st.builds(
    Message,
    st.one_of(
        bodies,
        st.builds(AmqpValue, odd_values),
        *(st.lists(part, min_size=1, max_size=3) for part in (datas, sequences)),
    ),
    header=st.none() | st.builds(Header, ttl=st.integers(0, 1)),
    message_annotations=st.none() | st.dictionaries(symbols, odd_values, max_size=2),
    properties=st.none()
    | st.builds(
        Properties,
        message_id=st.none() | ids,
        subject=st.none() | text,
        content_type=st.none() | ascii_text,
        creation_time=st.none() | st.integers(-1, 1),
        group_id=st.none() | text,
        group_sequence=st.none() | st.integers(0, 1),
    ),
    footer=st.sampled_from([None, None, {}, {"x-opt-crc": 1}]),
    message_format=st.sampled_from([0, 0, 0, 1]),
)


@given(messages | odd_messages)
@example(Message.decode(GENERAL))
@example(Message.decode(GENERAL_VALUE))
def test_what_is_converted_without_a_second_look_would_pass_it(message: Message) -> None:
    try:
        octets = message.encode()
        decoded = Message.decode(octets, message_format=message.message_format)
    except AmqpError:
        return  # equal keys in a map
    for one in (message, decoded):
        quick = convert._usual(one)
        event(f"{'quick' if quick else 'thorough'}")
        if quick is not None:
            made, lost = convert._convert(decoded)
            assert [] == lost
            assert bytes(made.encode()) == bytes(quick.encode())


def test_the_usual_needs_no_second_look() -> None:
    for octets in (GENERAL, REFERENCE):
        assert convert._usual(Message.decode(octets)) is not None


@given(odd_messages)
def test_conversion_to_proton_keeps_everything_or_refuses(message: Message) -> None:
    try:
        message = Message.decode(message.encode(), message_format=message.message_format)
    except AmqpError:
        return  # equal keys in a map
    try:
        lost = losses(message)
    except EncodeError:
        event("not expressible")
        with pytest.raises(EncodeError):
            to_proton(message, lossy=True)
        return
    if lost:
        event("lossy")
        with pytest.raises(EncodeError) as caught:
            to_proton(message)
        assert caught.value.path == lost[0].path
        assert to_proton(message, lossy=True) is not None
        return

    event("kept")
    theirs = to_proton(message)
    assert (None, 0) == (message.footer, message.message_format)
    assert [] == disagreements(message, theirs)
    assert same_message(message, from_proton(theirs))
    assert same_message(message, Message.decode(bytes(theirs.encode())))


# What proton encodes, from values of proton's own.

their_scalars = st.one_of(
    st.none(),
    st.booleans(),
    longs,
    st.floats(),
    st.uuids(),
    text,
    binaries,
    st.integers(0, 2**8 - 1).map(proton.ubyte),
    st.integers(0, 2**16 - 1).map(proton.ushort),
    st.integers(0, 2**32 - 1).map(proton.uint),
    st.integers(0, 2**64 - 1).map(proton.ulong),
    st.integers(-(2**7), 2**7 - 1).map(proton.byte),
    st.integers(-(2**15), 2**15 - 1).map(proton.short),
    st.integers(-(2**31), 2**31 - 1).map(proton.int32),
    st.floats(width=32).map(proton.float32),
    st.integers(0, 2**32 - 1).map(proton.decimal32),
    st.integers(0, 2**64 - 1).map(proton.decimal64),
    st.binary(min_size=16, max_size=16).map(proton.decimal128),
    st.characters(exclude_categories=["Cs"]).map(proton.char),
    longs.map(proton.timestamp),
    ascii_text.map(proton.symbol),
)
their_symbols = ascii_text.map(lambda s: proton.symbol(f"s-{s}"))
their_keys = st.one_of(text, their_symbols, st.integers(0, 2**32 - 1).map(proton.uint))
their_descriptors = st.one_of(their_symbols, st.integers(0, 2**64 - 1).map(proton.ulong))
their_arrays = st.builds(
    lambda descriptor, numbers: proton.Array(
        descriptor, proton.Data.INT, *map(proton.int32, numbers)
    ),
    st.just(proton.UNDESCRIBED) | their_descriptors,
    st.lists(st.integers(-(2**31), 2**31 - 1), max_size=4),
)
their_values = st.recursive(
    their_scalars | their_arrays,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(their_keys, inner, max_size=4),
        st.builds(proton.Described, their_descriptors, inner),
    ),
    max_leaves=12,
)
their_annotations = st.dictionaries(
    st.one_of(their_symbols, st.integers(0, 2**64 - 1).map(proton.ulong)), their_values, max_size=4
)
seconds = st.integers(0, 2**32 - 1).map(lambda ms: ms / 1000)
attributes: dict[str, st.SearchStrategy[Any]] = {
    "durable": st.booleans(),
    "priority": st.integers(0, 255),
    "ttl": seconds,
    "first_acquirer": st.booleans(),
    "delivery_count": st.integers(0, 2**32 - 1),
    "id": st.one_of(st.integers(0, 2**64 - 1), st.uuids(), binaries, text),
    "correlation_id": st.one_of(st.integers(0, 2**64 - 1), st.uuids(), binaries, text),
    "user_id": binaries,
    **dict.fromkeys(("address", "subject", "reply_to", "group_id", "reply_to_group_id"), c_text),
    **dict.fromkeys(("content_type", "content_encoding"), c_symbols),
    **dict.fromkeys(("expiry_time", "creation_time"), seconds),
    "group_sequence": st.integers(0, 2**32 - 1),
    "instructions": their_annotations,
    "annotations": their_annotations,
    "properties": st.dictionaries(text, their_scalars, max_size=4),
    "inferred": st.booleans(),
    "body": their_values,
}


@given(st.fixed_dictionaries({}, optional=attributes))
@example({})
@example({"body": None, "inferred": True})
@example({"body": [], "inferred": True})
@example({"body": b"", "inferred": True})
@example({"body": "text", "inferred": True})
@example({"body": proton.Described(proton.ulong(1), proton.Described(proton.ulong(2), b"x"))})
def test_what_proton_encodes_we_read_as_proton_says(chosen: dict[str, Any]) -> None:
    theirs = proton.Message(**chosen)

    ours = Message.decode(bytes(theirs.encode()))

    theirs.inferred = isinstance(ours.body, (Data, AmqpSequence))  # of text it says nothing
    assert [] == disagreements(ours, theirs)
    assert same_message(ours, from_proton(theirs))


# What was recorded.


@cache
def recorded() -> list[bytes]:
    path = Path(__file__).parent / "vectors" / "recorded.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [bytes.fromhex(json.loads(line)["raw"]) for line in lines]


# Proton's attributes show these up to the first NUL.
C_STRINGS = (
    *("to", "subject", "reply_to", "content_type", "content_encoding"),
    *("group_id", "reply_to_group_id"),
)


@pytest.mark.skipif("AMQP10MSG_VECTORS" not in os.environ, reason="AMQP10MSG_VECTORS is not set")
def test_messages_of_other_projects_proton_reads_as_we_do() -> None:
    path = Path(os.environ["AMQP10MSG_VECTORS"]) / "cases.jsonl.gz"
    kept = 0
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        cases = [json.loads(line) for line in lines]
    for case in cases:
        octets = bytes.fromhex(case["hex"])
        if case["kind"] == "value":
            octets = b"\0\x53\x77" + octets
        elif case["kind"] != "message":
            continue
        try:
            message = Message.decode(octets)
        except DecodeError:
            continue
        if kept_by_proton(message, octets):
            kept += 1
            assert [] == disagreements(message, decoded_by_proton(octets)), case["id"]

    assert kept > 500, "too few for a comparison"


def kept_by_proton(message: Message, octets: bytes) -> bool:
    try:
        again = Message.decode(bytes(decoded_by_proton(octets).encode()), strict=False)
    except (proton.ProtonException, DecodeError, TypeError, ValueError):
        # TypeError and ValueError: keys that Python cannot hash, text that it cannot decode.
        return False
    return same_message(message, again) and not any(
        "\0" in (getattr(message.properties, name, None) or "") for name in C_STRINGS
    )


def test_recorded_messages_proton_reads_as_we_do() -> None:
    kept = 0
    for octets in recorded():
        try:
            message = Message.decode(octets)
        except DecodeError:
            continue
        if not kept_by_proton(message, octets):
            continue
        kept += 1
        theirs = decoded_by_proton(octets)
        assert [] == disagreements(message, theirs), octets.hex()
        assert same_message(message, from_proton(theirs)), octets.hex()

    assert kept > 1000, "too few for a comparison"


def test_recorded_messages_convert_without_loss_or_say_what_is_lost() -> None:
    converted = 0
    for octets in recorded():
        try:
            message = Message.decode(octets)
            lost = losses(message)
        except AmqpError:
            continue
        if in_c_strings(lost):
            continue  # whether all of these is sent depends on the version of proton
        again = Message.decode(bytes(to_proton(message, lossy=True).encode()))
        assert same_message(message, again) == (not lost), octets.hex()
        converted += 1

    assert converted > 1000, "too few for a comparison"


def in_c_strings(lost: tuple[Any, ...]) -> bool:
    return bool(lost) and all("NUL" in loss.text for loss in lost)
