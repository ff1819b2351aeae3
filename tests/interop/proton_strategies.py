"""Messages that proton keeps, that it does not, and proton's own."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import strategies as st

from amqp10msg import (
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
    Described,
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

proton = pytest.importorskip("proton", reason="needs python-qpid-proton")


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
