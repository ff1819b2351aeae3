"""What has no encoding is refused with `EncodeError`, and what is nearly a value becomes one."""

from __future__ import annotations

import datetime
import decimal
import enum
import uuid
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import amqp10msg
from amqp10msg import (
    AmqpMap,
    AmqpSequence,
    AmqpValue,
    Array,
    Char,
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    EncodeError,
    Float,
    Message,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
)


def recursive() -> list[Any]:
    """Values that contain themselves, in every way."""
    in_list: list[Any] = []
    in_list.append(in_list)
    in_map: dict[str, Any] = {}
    in_map["self"] = in_map
    in_key: list[Any] = []
    in_key.append(AmqpMap([(in_key, None)]))
    in_array = Array("array")
    in_array.values.append(in_array)
    in_descriptor: list[Any] = []
    in_descriptor.append(Array("int", [1], descriptors=[in_descriptor]))
    described = Described(ULong(1), None)
    described.value = described
    section = AmqpValue()
    section.value = [section]
    directly = AmqpValue()
    directly.value = directly
    deep: Any = None
    for _ in range(100_000):
        deep = [deep]
    return [in_list, in_map, in_key, in_array, in_descriptor, described, section, directly, deep]


@pytest.mark.parametrize("number", range(9))
def test_self_containing_value_cannot_be_encoded(number: int) -> None:
    value = recursive()[number]

    with pytest.raises(EncodeError, match="nested"):
        amqp10msg.encode_value(value)
    # Not through the destructor of a list that deep, which has limits of its own.
    while isinstance(value, list) and value:
        value = value.pop()


class Moment(datetime.datetime):
    """As those of pandas and others."""


class Unknown:
    pass


def _forged(cls: Any, content: Any) -> Any:
    """An instance whose class would not have let it be made."""
    return cls.__mro__[-2].__new__(cls, content)


@pytest.mark.parametrize(
    "value, reason",
    [
        (2**63, "long holds .* use ULong"),
        (-(2**63) - 1, "long holds"),
        (10**100, "long holds"),
        ("\ud800", "not valid text"),
        ({"\udfff": 1}, "not valid text"),
        (_forged(Symbol, "é"), "not valid text|ASCII"),
        (int.__new__(UByte, 256), "ubyte holds"),
        (int.__new__(UInt, -1), "uint holds"),
        (int.__new__(Timestamp, 2**63), "timestamp holds"),
        (Unknown(), "Unknown has no AMQP type"),
        (object, "has no AMQP type"),
        ({1, 2}, "set has no AMQP type"),
        (1j, "complex has no AMQP type"),
        (range(3), "range has no AMQP type"),
        ([Unknown()], "Unknown has no AMQP type"),
        ({"k": Unknown()}, "Unknown has no AMQP type"),
        (datetime.datetime(2024, 1, 1), "time zone"),  # noqa: DTZ001  (the point)
        (datetime.date(2024, 1, 1), "date has no AMQP type"),
        (decimal.Decimal("1E+7000"), "does not fit"),
        (decimal.Decimal("1." + "1" * 40), "does not fit"),
        (AmqpMap([("a", 1), ("a", 2)]), "duplicate map key"),
        (AmqpMap([(1, 1), (1, 2)]), "duplicate map key"),
        (AmqpMap([([1], 1), ([1], 2)]), "duplicate map key"),
        (Array("int", [2**31]), "int holds|fit"),
        (Array("int", ["text"]), "must be int"),
        (Array("int", [None]), "must be int"),
        (Array("int", [True]), "must be int"),
        (Array("int", [UInt(1)]), "must be int"),
        (Array("uint", [-1]), "uint holds"),
        (Array("ubyte", [256]), "ubyte holds"),
        (Array("boolean", [1]), "boolean"),
        (Array("boolean", [None]), "boolean"),
        (Array("double", ["x"]), "must be double"),
        (Array("double", [10**400]), "double|large"),
        (Array("float", [1e39]), "float|large"),
        (Array("float", [10**400]), "float|large"),
        (Array("char", ["ab"]), "one Unicode scalar value"),
        (Array("decimal32", [decimal.Decimal("1E+999")]), "fit"),
        (Array("decimal32", [Decimal64(0)]), "must be decimal32"),
        (Array("timestamp", [datetime.datetime(2024, 1, 1)]), "time zone"),  # noqa: DTZ001
        (Array("timestamp", [Moment(2024, 1, 1)]), "time zone"),
        (Array("symbol", ["é"]), "ASCII"),
        (Array("string", ["\ud800"]), "not valid text"),
        (Array("string", [Symbol("a")]), "must be string"),
        (Array("binary", ["text"]), "must be binary"),
        (Array("uuid", ["text"]), "must be uuid"),
        (Array("list", [None]), "must be list"),
        (Array("map", [[]]), "must be map"),
        (Array("array", [[]]), "must be array"),
        (Array("null", [False]), "must be null"),
        (Array(0x41, [False]), "does not fit an array of constructor 0x41"),
        (Array(0x43, [UInt(1)]), "does not fit an array of constructor 0x43"),
        (Array(0x45, [[1]]), "does not fit an array of constructor 0x45"),
        (Array(0x52, [UInt(256)]), "does not fit an array of constructor 0x52"),
        (Array(0x54, [128]), "does not fit an array of constructor 0x54"),
        (Array(0xA0, [b"x" * 256]), "does not fit an array of constructor 0xA0"),
        (Array(0xC0, [[None] * 300]), "does not fit an array of constructor 0xC0"),
        (Array(0xC1, [dict.fromkeys(range(200))]), "does not fit an array of .* 0xC1"),
        (Array("int", [1], descriptors=[Unknown()]), "Unknown has no AMQP type"),
        (Described(Unknown(), 1), "Unknown has no AMQP type"),
    ],
)
def test_value_without_amqp_type_cannot_be_encoded(
    wire: ModuleType, value: Any, reason: str
) -> None:
    for wrapped in (value, [value], {"k": value}, Described(ULong(1), value)):
        with pytest.raises(EncodeError, match=reason):
            wire.encode_value(wrapped)


class SubDescribed(Described):
    pass


class SubArray(Array):
    pass


class SubMap(AmqpMap):
    pass


class SubList(list[Any]):
    pass


class SubDict(dict[Any, Any]):
    pass


class SubStr(str):
    __slots__ = ()


class SubInt(int):
    pass


class SubFloat(float):
    pass


class SubBytes(bytes):
    pass


class SubUuid(uuid.UUID):
    pass


class SubUInt(UInt):
    __slots__ = ()


class SubSymbol(Symbol):
    __slots__ = ()


class SubFloat32(Float):
    pass


class SubDecimal128(Decimal128):
    pass


class SubDatetime(datetime.datetime):
    pass


@pytest.mark.parametrize(
    "sub, base",
    [
        (SubDescribed(ULong(1), 2), Described(ULong(1), 2)),
        (SubArray("int", [1]), Array("int", [1])),
        (SubMap([(1, 2)]), AmqpMap([(1, 2)])),
        (SubList([1]), [1]),
        (SubDict(a=1), {"a": 1}),
        (SubStr("a"), "a"),
        (SubInt(5), 5),
        (SubFloat(0.5), 0.5),
        (SubBytes(b"a"), b"a"),
        (SubUuid(int=5), uuid.UUID(int=5)),
        (SubUInt(5), UInt(5)),
        (SubSymbol("a"), Symbol("a")),
        (SubFloat32.from_bits(0x7F800001), Float.from_bits(0x7F800001)),
        (SubDecimal128(5), Decimal128(5)),
        (SubDatetime(2024, 1, 1, tzinfo=datetime.UTC), Timestamp(1704067200000)),
        (enum.IntEnum("Sub", {"A": 5}).A, 5),  # type: ignore[attr-defined]
        (enum.StrEnum("Sub", {"A": "a"}).A, "a"),  # type: ignore[attr-defined]
    ],
    ids=lambda drawn: type(drawn).__name__,
)
def test_a_subclass_encodes_as_its_base(wire: ModuleType, sub: Any, base: Any) -> None:
    assert wire.encode_value(base) == wire.encode_value(sub)
    assert wire.encode_value([base]) == wire.encode_value([sub])


class Colour(enum.Enum):
    RED = 5


@pytest.mark.parametrize(
    "given_, exact",
    [
        (Array("uint", [Colour.RED]), Array("uint", [UInt(5)])),
        (Array("float", [0.5, 1]), Array("float", [Float(0.5), Float(1)])),
        (Array("double", [1]), Array("double", [1.0])),
        (Array("symbol", ["a"]), Array("symbol", [Symbol("a")])),
        (Array("char", ["a"]), Array("char", [Char("a")])),
        (Array("decimal32", [decimal.Decimal(1)]), Array("decimal32", [Decimal32(0x32800001)])),
        (
            Array("timestamp", [datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC), 5]),
            Array("timestamp", [Timestamp(0), Timestamp(5)]),
        ),
        (Array(0x70, [5]), Array(0x70, [UInt(5)])),
        (Array("map", [AmqpMap([(1, 2)])]), Array("map", [{1: 2}])),
    ],
)
def test_array_encodes_plain_values_as_its_type(wire: ModuleType, given_: Any, exact: Any) -> None:
    assert wire.encode_value(exact) == wire.encode_value(given_)


def test_nested_arrays_are_encoded_once(wire: ModuleType) -> None:
    """Choosing a constructor must not cost a pass a level: 60 levels would be 2^60 encodings."""
    nested = Array("int", [1])
    for _ in range(60):
        nested = Array("array", [nested])

    assert len(wire.encode_value(nested)) > 60


@given(data=st.data())
def test_only_octets_decode(wire: ModuleType, data: st.DataObject) -> None:
    wrong = data.draw(st.none() | st.integers() | st.text() | st.lists(st.integers(0, 255)))
    for read in (wire.decode_value, wire.decode_values, wire.skip_value):
        with pytest.raises(TypeError, match="expected bytes, bytearray or memoryview"):
            read(wrong)


def test_path_in_a_self_containing_value_is_finite() -> None:
    value: list[object] = []
    value.append(value)
    with pytest.raises(EncodeError) as caught:
        Message(value).encode()
    assert caught.value.path.startswith("amqp-value[0][0]")


@pytest.mark.parametrize("held", [5, None, "ab", b"ab", {"a": 1}, {1}])
def test_amqp_sequence_must_be_a_list(held: Any) -> None:
    with pytest.raises(EncodeError, match=r"^amqp-sequence: must be list, not"):
        Message(AmqpSequence(held)).encode()
    assert Message(AmqpSequence([1])).encode() == Message(AmqpSequence((1,))).encode()  # type: ignore[arg-type]
