"""The types of Part 1 as Python types: ranges, exactness, identity."""

from __future__ import annotations

import copy
import datetime
import decimal
import math
import pickle
import struct
import uuid
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from amqp10msg import (
    AmqpMap,
    AmqpValue,
    Array,
    Byte,
    Char,
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    Float,
    Int,
    Message,
    Short,
    Symbol,
    Timestamp,
    UByte,
    UInt,
    ULong,
    UShort,
    decode_value,
    encode_value,
)
from amqp10msg.testing import TYPES, maps, simple_values, values, values_of
from amqp10msg.wire.primitives import FORMAT_CODES, identical, plain

INTEGERS = {
    UByte: (0, 2**8 - 1),
    UShort: (0, 2**16 - 1),
    UInt: (0, 2**32 - 1),
    ULong: (0, 2**64 - 1),
    Byte: (-(2**7), 2**7 - 1),
    Short: (-(2**15), 2**15 - 1),
    Int: (-(2**31), 2**31 - 1),
    Timestamp: (-(2**63), 2**63 - 1),
}
DECIMALS = [Decimal32, Decimal64, Decimal128]
UTC = datetime.UTC
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=UTC)


# Part 1, 1.6, written out again: code, type, category, width.
TABLE = """
40 null fixed 0        56 boolean fixed 1     41 boolean fixed 0     42 boolean fixed 0
50 ubyte fixed 1       60 ushort fixed 2      70 uint fixed 4        52 uint fixed 1
43 uint fixed 0        80 ulong fixed 8       53 ulong fixed 1       44 ulong fixed 0
51 byte fixed 1        61 short fixed 2       71 int fixed 4         54 int fixed 1
81 long fixed 8        55 long fixed 1        72 float fixed 4       82 double fixed 8
74 decimal32 fixed 4   84 decimal64 fixed 8   94 decimal128 fixed 16 73 char fixed 4
83 timestamp fixed 8   98 uuid fixed 16       a0 binary variable 1   b0 binary variable 4
a1 string variable 1   b1 string variable 4   a3 symbol variable 1   b3 symbol variable 4
45 list fixed 0        c0 list compound 1     d0 list compound 4     c1 map compound 1
d1 map compound 4      e0 array array 1       f0 array array 4
"""


def test_format_codes_are_those_of_part_1() -> None:
    words = TABLE.split()
    rows = [words[i : i + 4] for i in range(0, len(words), 4)]
    expected = {int(code, 16): (name, shape, int(width)) for code, name, shape, width in rows}

    assert expected == {c: (r.type, r.category, r.width) for c, r in FORMAT_CODES.items()}
    assert all(code == row.code for code, row in FORMAT_CODES.items())


# Integers.


@pytest.mark.parametrize("cls, bounds", INTEGERS.items())
def test_integer_range_is_enforced(cls: Any, bounds: tuple[int, int]) -> None:
    least, most = bounds

    assert (least, most) == (cls.min, cls.max) == (cls(least), cls(most))
    for outside in (least - 1, most + 1, 10**30, -(10**30)):
        with pytest.raises(ValueError, match=f"{cls.__name__} holds {least} to {most}, not"):
            cls(outside)


@pytest.mark.parametrize("cls", INTEGERS)
def test_an_integer_is_an_int(cls: Any) -> None:
    five = cls(5)

    assert five == 5
    assert {5: "found"}[five] == "found"
    assert five + 1 == 6
    assert repr(five) == f"{cls.__name__}(5)"
    assert str(five) == "5"
    assert f"{five:03d}" == "005"
    assert cls() == 0


@given(st.sampled_from(sorted(INTEGERS, key=lambda cls: cls.__name__)), st.data())
def test_copies_of_an_integer_keep_its_type(cls: Any, data: st.DataObject) -> None:
    value = data.draw(values_of(cls.__name__.lower()))

    for twin in (copy.copy(value), copy.deepcopy(value), pickle.loads(pickle.dumps(value))):
        assert type(twin) is cls
        assert twin == value


# Timestamps.


@given(
    # Not up to the ends, so that no time zone leads beyond the years 1 to 9999.
    st.datetimes().filter(lambda drawn: 1 < drawn.year < 9999),
    st.integers(-14 * 60, 14 * 60),
)
def test_a_timestamp_is_the_datetime_cut_to_milliseconds(
    naive: datetime.datetime, minutes: int
) -> None:
    zone = datetime.timezone(datetime.timedelta(minutes=minutes))
    moment = naive.replace(tzinfo=zone)
    cut = moment - datetime.timedelta(microseconds=moment.microsecond % 1000)

    stamp = Timestamp.from_datetime(moment)

    assert cut == stamp.to_datetime()
    assert stamp.to_datetime().tzinfo is UTC
    assert stamp == Timestamp.from_datetime(stamp.to_datetime())


@given(st.integers(-62_135_596_800_000, 253_402_300_799_999))
def test_every_millisecond_in_the_range_of_datetime(milliseconds: int) -> None:
    moment = Timestamp(milliseconds).to_datetime()

    assert milliseconds == round((moment - EPOCH) / datetime.timedelta(milliseconds=1))
    assert milliseconds == Timestamp.from_datetime(moment)


@pytest.mark.parametrize("far", [253_402_300_800_000, -62_135_596_800_001, 2**63 - 1, -(2**63)])
def test_timestamp_outside_the_range_of_datetime(far: int) -> None:
    with pytest.raises(ValueError, match="outside the years 1 to 9999"):
        Timestamp(far).to_datetime()
    assert plain(Timestamp(far)) == far


def test_naive_datetime_is_refused() -> None:
    with pytest.raises(ValueError, match=r"datetime\.UTC"):
        Timestamp.from_datetime(datetime.datetime(2024, 1, 1))  # noqa: DTZ001  (the point)


# Floats.


@given(st.integers(0, 2**32 - 1))
@example(0x7F800001)  # a signalling NaN
@example(0xFFFFFFFF)
@example(0x80000000)  # -0.0
@example(0x00000001)  # the smallest subnormal
def test_a_float_keeps_its_bits(bits: int) -> None:
    value = Float.from_bits(bits)

    assert bits == value.bits
    assert bits == Float(value).bits
    assert bits == pickle.loads(pickle.dumps(value)).bits == copy.deepcopy(value).bits
    if not math.isnan(value):
        assert struct.unpack(">f", bits.to_bytes(4, "big"))[0] == value
        assert bits == Float(float(value)).bits


@given(st.floats(allow_nan=False, width=64, min_value=-3.4e38, max_value=3.4e38))
def test_a_float_is_the_nearest_of_32_bits(number: float) -> None:
    assert struct.unpack(">f", struct.pack(">f", number))[0] == Float(number)


def test_float_overflow_infinity_and_nan() -> None:
    with pytest.raises(OverflowError):
        Float(1e39)
    assert Float("inf") == math.inf
    assert math.isnan(Float(math.nan))
    assert Float(math.nan).bits & 0x7FC00000 == 0x7FC00000
    assert repr(Float(0.5)) == "Float(0.5)"
    assert str(Float(0.5)) == "0.5"
    assert Float(0.5) == 0.5


# Decimals: IEEE 754-2008, binary integer significand.

FORMATS = {
    # digits, smallest and largest exponent of the coefficient's last digit
    Decimal32: (7, -101, 90),
    Decimal64: (16, -398, 369),
    Decimal128: (34, -6176, 6111),
}

EXAMPLES = [
    # Computed by hand from IEEE 754-2008, 3.5.2.
    (Decimal32, 0x32800001, "1"),
    (Decimal32, 0xB2800001, "-1"),
    (Decimal32, 0x32800000, "0"),
    (Decimal32, 0x77F8967F, "9.999999E+96"),
    (Decimal32, 0x00000001, "1E-101"),
    (Decimal32, 0x78000000, "Infinity"),
    (Decimal32, 0xF8000000, "-Infinity"),
    (Decimal32, 0x7C000000, "NaN"),
    (Decimal32, 0x7C000005, "NaN5"),
    (Decimal32, 0x7E000000, "sNaN"),
    (Decimal64, 0x31C0000000000001, "1"),
    (Decimal64, 0x77FB86F26FC0FFFF, "9.999999999999999E+384"),
    (Decimal128, 0x30400000000000000000000000000001, "1"),
    (Decimal128, 0x303E000000000000000000000000000A, "1.0"),
]


@pytest.mark.parametrize("cls, bits, text", EXAMPLES)
def test_a_decimal_is_the_number_of_its_bits(cls: Any, bits: int, text: str) -> None:
    assert text == str(cls(bits))
    assert bits == cls.from_decimal(decimal.Decimal(text)).bits


@given(st.sampled_from(DECIMALS), st.data())
def test_every_number_of_a_decimal_format_is_exact(cls: Any, data: st.DataObject) -> None:
    digits, least, most = FORMATS[cls]
    coefficient = data.draw(st.integers(0, 10**digits - 1))
    exponent = data.draw(st.integers(least, most))
    sign = data.draw(st.integers(0, 1))
    number = decimal.Decimal((sign, tuple(map(int, str(coefficient))), exponent))

    made = cls.from_decimal(number)

    assert number.as_tuple() == made.to_decimal().as_tuple()
    assert made == decode_value(encode_value(made))


@given(st.sampled_from(DECIMALS), st.data())
def test_decimals_keep_non_canonical_bits(cls: Any, data: st.DataObject) -> None:
    value = data.draw(values_of(cls.__name__.lower()))

    number = value.to_decimal()

    assert identical(value, decode_value(encode_value(value)))
    assert identical(value, pickle.loads(pickle.dumps(value)))
    # A number is what from_decimal gives for it, whatever bits said it first.
    again = cls.from_decimal(number).to_decimal()
    assert number.as_tuple() == again.as_tuple()
    assert (value == cls(value.bits)) is True
    assert hash(value) == hash(cls(value.bits))


@pytest.mark.parametrize("cls", DECIMALS)
def test_a_coefficient_beyond_the_digits_is_zero(cls: Any) -> None:
    # All ones behind the implied 100: larger than ten to the number of digits.
    top = 8 * cls.width - 1
    bits = 0b11 << (top - 2) | (1 << (cls._coefficient_bits - 2)) - 1

    assert decimal.Decimal(0) == cls(bits).to_decimal()


@pytest.mark.parametrize("cls", DECIMALS)
def test_decimal_refuses_inexact_numbers(cls: Any) -> None:
    digits, least, most = FORMATS[cls]
    one_too_many = decimal.Decimal("1" + "0" * (digits - 1) + "1")

    for number in (
        one_too_many,
        decimal.Decimal((0, (1,), most + digits)),
        decimal.Decimal((0, (1,), least - 1)),
        decimal.Decimal("NaN" + "1" * digits),
    ):
        with pytest.raises(ValueError, match=cls.__name__):
            cls.from_decimal(number)
    # An exponent beyond the range is folded into trailing zeros where there is room.
    assert (
        decimal.Decimal((0, (1,), most + digits - 1))
        == cls.from_decimal(decimal.Decimal((0, (1,), most + digits - 1))).to_decimal()
    )


@pytest.mark.parametrize("cls", DECIMALS)
def test_decimal_constructor_requires_valid_bits(cls: Any) -> None:
    with pytest.raises(TypeError, match="from_decimal"):
        cls(decimal.Decimal(1))
    for bits in (-1, 1 << 8 * cls.width):
        with pytest.raises(ValueError, match="bits"):
            cls(bits)


def test_decimals_of_different_widths_differ() -> None:
    assert Decimal32(5) != Decimal64(5)
    assert Decimal32.from_decimal("1") != Decimal32.from_decimal("1.0")


# Text.


def test_a_char_is_one_code_point() -> None:
    assert Char("ü") == "ü"
    assert repr(Char("a")) == "Char('a')"
    for wrong in ("", "ab", "\ud800", "\udfff"):
        with pytest.raises(ValueError, match="one Unicode scalar value"):
            Char(wrong)


@given(st.text(max_size=10))
def test_a_symbol_is_ascii(text: str) -> None:
    if text.isascii():
        assert text == Symbol(text)
        assert hash(text) == hash(Symbol(text))
        assert type(pickle.loads(pickle.dumps(Symbol(text)))) is Symbol
    else:
        with pytest.raises(ValueError, match="ASCII"):
            Symbol(text)


# Arrays, maps, described values.


def test_an_array_names_its_type() -> None:
    array = Array("int", [1, 2])

    assert (array.type, array.code, array.descriptors) == ("int", None, ())
    assert (Array(0x71, [1]).type, Array(0x71, [1]).code) == ("int", 0x71)
    assert list(array) == [1, 2]
    assert array[0] == 1
    assert len(array) == 2
    assert array == Array(0x54, [1, 2])
    assert array != Array(0x71, [1, 2])
    assert array != Array("long", [1, 2])
    assert array != Array("int", [1, 2], descriptors=[ULong(1)])
    assert array != [1, 2]
    assert repr(Array(0x71, [1], descriptors=[ULong(1)])) == (
        "Array(0x71, [1], descriptors=(ULong(1),))"
    )
    with pytest.raises(TypeError, match="unhashable"):
        hash(array)
    for wrong in ("integer", 0x57):
        with pytest.raises(ValueError, match=r"not (an AMQP type|a format code)"):
            Array(wrong)


# Elements, and the constructors that can encode them.
ARRAYS: st.SearchStrategy[tuple[str, list[Any], tuple[int, ...]]] = st.sampled_from(
    [
        ("boolean", [], (0x41, 0x42, 0x56)),
        ("boolean", [True], (0x41, 0x56)),
        ("uint", [], (0x43, 0x52, 0x70)),
        ("uint", [0], (0x43, 0x52, 0x70)),
        ("uint", [300], (0x70,)),
        ("string", ["x"], (0xA1, 0xB1)),
        ("list", [[]], (0x45, 0xC0, 0xD0)),
        ("map", [{}], (0xC1, 0xD1)),
    ]
)


@given(ARRAYS, st.data(), st.lists(st.just(ULong(7)), max_size=2))
def test_arrays_are_equal_if_their_encodings_are(
    row: tuple[str, list[Any], tuple[int, ...]], data: st.DataObject, descriptors: list[Any]
) -> None:
    name, values, codes = row
    constructors: st.SearchStrategy[str | int] = st.sampled_from([name, *codes])
    a, b = (Array(data.draw(constructors), values, descriptors=descriptors) for _ in range(2))

    is_equal = encode_value(a) == encode_value(b)
    assert is_equal == (a == b) == (b == a)
    assert is_equal == (Message(AmqpValue(a)) == Message(AmqpValue(b)))
    assert decode_value(encode_value(a)) == a


def test_arrays_that_cannot_be_encoded_are_compared() -> None:
    assert Array("int", ["x"]) == Array("int", ["x"])
    assert Array("int", ["x"]) != Array(0x71, ["x"])


def test_amqp_map_distinguishes_keys_that_are_equal_in_python() -> None:
    keys: list[Any] = [1, UInt(1), True, 1.0, Float(1.0), "a", Symbol("a"), Char("a"), [1], 0.0]
    mapping = AmqpMap((key, str(number)) for number, key in enumerate(keys))

    assert [mapping[key] for key in keys] == [str(number) for number in range(len(keys))]
    assert UByte(1) not in mapping
    assert -0.0 not in mapping
    assert len(mapping) == len(keys)
    assert list(mapping) == keys
    with pytest.raises(KeyError):
        mapping[UByte(1)]
    assert mapping == AmqpMap(mapping.pairs)
    assert mapping != AmqpMap(reversed(mapping.pairs))
    assert AmqpMap({"a": 1}).pairs == (("a", 1),)
    with pytest.raises(TypeError, match="unhashable"):
        hash(mapping)


@given(maps(values_of("uint") | values_of("long") | values_of("double"), values_of("null")))
def test_maps_decode_to_dict_if_possible(mapping: Any) -> None:
    decoded = decode_value(encode_value(mapping))

    assert type(mapping) is type(decoded)
    assert identical(mapping, decoded)
    if isinstance(decoded, AmqpMap):
        keys = [key for key, _ in decoded.pairs]
        assert len(set(keys)) < len(keys) or any(key != key for key in keys)  # noqa: PLR0124


# identical() and plain().


@given(values())
def test_a_copy_is_identical(value: Any) -> None:
    assert identical(value, value)
    assert identical(value, copy.deepcopy(value))
    assert identical(value, pickle.loads(pickle.dumps(value)))


@given(values(max_leaves=5), values(max_leaves=5))
def test_identical_agrees_with_the_encoding(a: Any, b: Any) -> None:
    if encode_value(a) == encode_value(b):
        assert identical(a, b)
    if identical(a, b):
        assert identical(b, a)
        assert type(a) is type(b)


@pytest.mark.parametrize(
    "a, b",
    [
        (1, UInt(1)),
        (1, True),
        (0.0, -0.0),
        (0.0, Float(0.0)),
        ("a", Symbol("a")),
        ("a", Char("a")),
        (b"a", "a"),
        ([1], Array("long", [1])),
        (Float.from_bits(0x7FC00000), Float.from_bits(0x7FC00001)),
        (Float.from_bits(0x7FC00000), Float.from_bits(0xFFC00000)),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({"a": 1}, AmqpMap([("a", 1)])),
        ([1, 2], [1]),
        (Array("int"), Array("uint")),
        (Described(ULong(1), 1), Described(UInt(1), 1)),
        (Decimal32(1), Decimal64(1)),
        (None, False),
    ],
)
def test_not_identical(a: Any, b: Any) -> None:
    assert not identical(a, b)
    assert not identical([a], [b])
    assert not identical(Described(ULong(1), a), Described(ULong(1), b))


@given(simple_values())
def test_plain_values_have_no_wire_type(value: Any) -> None:
    natural = plain(value)

    assert type(natural) in {
        *(type(None), bool, int, float, str, bytes),
        *(uuid.UUID, datetime.datetime, decimal.Decimal),
    }
    if isinstance(value, (int, str, bytes)) and not isinstance(value, Timestamp):
        assert value == natural


def test_plain_compounds() -> None:
    assert plain([UInt(1), Symbol("a")]) == [1, "a"]
    assert plain(Array("uint", [UInt(1)])) == [1]
    assert plain({Symbol("a"): UInt(1)}) == {"a": 1}
    both: Any = plain(AmqpMap([(1, "long"), (UInt(1), "uint")]))
    assert both == [(1, "long"), (1, "uint")]
    unhashable: Any = plain(AmqpMap([([1], 2)]))
    assert unhashable == [([1], 2)]
    assert plain(AmqpMap([(1, 2)])) == {1: 2}
    assert plain(Described(ULong(1), Float(0.5))) == 0.5


def test_types_are_all_of_part_1() -> None:
    assert len(TYPES) == 25
    assert {*(row.type for row in FORMAT_CODES.values()), "described"} == set(TYPES)


def test_amqp_map_keeps_pairs_in_wire_order() -> None:
    """Also where two keys are the same, as lenient reading keeps them."""
    pairs = [("a", 1), ("b", 2), ("a", 3), (float("nan"), 4), ([1], 5)]

    assert pairs == list(AmqpMap(pairs).items())
    assert [1, 2, 3, 4, 5] == list(AmqpMap(pairs).values())
    assert ("b", 2) in AmqpMap(pairs).items()
