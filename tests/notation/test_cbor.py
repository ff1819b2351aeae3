"""CBOR: lossless, deterministic, and safe for untrusted input."""

from __future__ import annotations

import math
import re
import struct
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import (
    AmqpMap,
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
from amqp10msg.notation import NotationError, from_cbor, from_typed, to_cbor, to_typed
from amqp10msg.notation._common import describe
from amqp10msg.notation.type_names import BIT_PATTERN_WIDTHS, TYPE_NAME_BY_CLASS, bits_of
from amqp10msg.sections.parts import parts_of
from amqp10msg.testing import encodings, messages, mutated, values
from amqp10msg.wire.primitives import DECIMALS, INTEGERS, identical

cbor2 = pytest.importorskip("cbor2", reason="CBOR needs amqp10msg[cbor]")


def double(bits: str) -> float:
    return struct.unpack(">d", bytes.fromhex(bits))[0]  # type: ignore[no-any-return]


@given(values())
def test_values_round_trip_bit_for_bit(value: Any) -> None:
    written = to_cbor(value)
    back = from_cbor(written)
    assert identical(decode_value(encode_value(value)), back)
    assert encode_value(value) == encode_value(back)
    assert written == to_cbor(back)


TAGS = {
    **{name: 41216 + place for place, name in enumerate(INTEGERS)},
    **dict.fromkeys(DECIMALS, 41226),
    "float": 41224,
    "char": 41227,
    "symbol": 41228,
    "uuid": 37,
    "map": 41229,
    "array": 41230,
    "described": 41231,
}
NAN = {"float": b"\x7f\xc0", "double": b"\x7f\xf8"}


def content(name: str, value: Any) -> Any:
    """What follows the tag of a type, as the table of the types has it."""
    if name == "list":
        return list(map(tagged, value))
    if name == "map":
        return [tagged(one) for pair in value.items() for one in pair]
    if name == "described":
        return [tagged(value.descriptor), tagged(value.value)]
    if name == "array":
        head = [list(map(tagged, value.descriptors))] if value.descriptors else []
        return [*head, value.code, *(content(value.type, one) for one in value.values)]
    if name in ("float", "double"):
        octets = bits_of(value)
        return octets if math.isnan(value) and octets.rstrip(b"\0") != NAN[name] else float(value)
    if name in BIT_PATTERN_WIDTHS:
        return bits_of(value)
    if name == "char":
        return ord(value)
    return int(value) if name in INTEGERS else str(value) if name == "symbol" else value


def tagged(value: Any) -> Any:
    name = TYPE_NAME_BY_CLASS[type(value)]
    made = content(name, value)
    tag = 41225 if name == "double" and type(made) is bytes else TAGS.get(name)
    return made if tag is None else cbor2.CBORTag(tag, made)


def as_cbor2_writes(given: Any) -> bytes:
    """Write a value or a message by way of cbor2."""
    if not isinstance(given, Message):
        return bytes(cbor2.dumps(tagged(decode_value(encode_value(given))), canonical=True))
    octets = given.encode()
    made: list[Any] = [int(given.message_format)]
    for code, start, at, end in parts_of(octets):
        try:
            value = decode_value(octets[start if code < 0 else at : end])
        except DecodeError:
            made.append([octets[start:end]])
        else:
            made.append([None if code < 0 else code, tagged(value)])
    return bytes(cbor2.dumps(cbor2.CBORTag(41232, made), canonical=True))


@given(
    values()
    | st.floats()
    | st.floats(width=16)
    | st.floats(width=32).map(Float)
    | st.integers(0, 2**64 - 1).map(ULong)
    | st.integers(-(2**63), 2**63 - 1)
    | st.sampled_from([0, 24, 256, 2**16, 2**32]).map(lambda n: b"x" * (n % 70_000))
)
def test_values_equal_the_output_of_cbor2(value: Any) -> None:
    assert as_cbor2_writes(value) == to_cbor(value)


@given(st.data())
def test_messages_equal_the_output_of_cbor2(data: st.DataObject) -> None:
    octets = data.draw(messages().flatmap(encodings))
    message_format = data.draw(st.integers(0, 2**32 - 1))
    message = Message.decode(octets, message_format=message_format)
    assert as_cbor2_writes(message) == to_cbor(message)
    try:
        message = Message.decode(
            data.draw(mutated(octets)), message_format=message_format, strict=False
        )
    except DecodeError:
        return
    assert as_cbor2_writes(message) == to_cbor(message)


@given(st.data())
def test_messages_round_trip_with_message_format(data: st.DataObject) -> None:
    message = data.draw(messages())
    decoded = Message.decode(
        data.draw(encodings(message)), message_format=data.draw(st.integers(0, 2**32 - 1))
    )
    back = from_cbor(to_cbor(decoded))
    assert decoded == back
    assert decoded.message_format == back.message_format
    assert to_typed(decoded) == to_typed(back)


@given(messages())
def test_equal_content_gives_equal_bytes(message: Message) -> None:
    assert to_cbor(message) == to_cbor(Message.decode(message.encode()).evolve())
    assert to_cbor(message) == to_cbor(
        from_typed(to_typed(message)).evolve(message_format=message.message_format)
    )


@pytest.mark.parametrize(
    "sections",
    [
        [["header", ["map", []]], ["data", ["null"]]],
        [["unknown", ["described", ["ulong", 0x79], ["map", []]]], ["unknown", ["string", "a"]]],
        [["data", ""], ["header", []], ["header", []]],
    ],
)
def test_irregular_messages_round_trip(sections: list[Any]) -> None:
    message = from_typed(sections)
    back = from_cbor(to_cbor(message))
    assert sections == to_typed(back)
    assert message.violations == back.violations != ()


# A tag of the form's own is three bytes: D9 and the number, from A100 on.
FORMS = [
    (None, "f6"),
    (True, "f5"),
    ("é", "62c3a9"),
    (-5, "24"),
    (2**63 - 1, "1b7fffffffffffffff"),
    (1.5, "f93e00"),
    (0.1, "fb3fb999999999999a"),
    (-0.0, "f98000"),
    (double("7ff8000000000000"), "f97e00"),
    (double("7ff0000000000001"), "d9a109487ff0000000000001"),
    (double("fff8000000000000"), "d9a10948fff8000000000000"),
    (b"\x00", "4100"),
    ([1, [None]], "820181f6"),
    (UByte(1), "d9a10001"),
    (UShort(1), "d9a10101"),
    (UInt(2**32 - 1), "d9a1021affffffff"),
    (ULong(2**64 - 1), "d9a1031bffffffffffffffff"),
    (Byte(-1), "d9a10420"),
    (Short(-1), "d9a10520"),
    (Int(24), "d9a1061818"),
    (Timestamp(-1), "d9a10720"),
    (Float(1.5), "d9a108f93e00"),
    (Float(0.1), "d9a108fa3dcccccd"),
    (Float.from_bits(0x7FC00000), "d9a108f97e00"),
    (Float.from_bits(0x7FC00001), "d9a108447fc00001"),
    (Decimal32(0x22500001), "d9a10a4422500001"),
    (Decimal64(1), "d9a10a480000000000000001"),
    (Decimal128(1), "d9a10a5000000000000000000000000000000001"),
    (Char("a"), "d9a10b1861"),
    (Symbol("a"), "d9a10c6161"),
    ({"b": 1, "a": 2}, "d9a10d846162016161" + "02"),
    (AmqpMap([(1, None), (UInt(1), None)]), "d9a10d8401f6d9a10201f6"),
    (Array(0x71, [1, 2]), "d9a10e8318710102"),
    (
        Array(0xA1, ["x"], descriptors=[Symbol("d")]),
        "d9a10e8381d9a10c616418a16178",
    ),
    (Array(0xE0, [Array(0x54, [1])]), "d9a10e8218e082185401"),
    (Described(ULong(1), []), "d9a10f82d9a1030180"),
    (Message(Data(b"a"), header=Header(ttl=5)), "d9a110830082187083f6f6d9a10205821875" + "4161"),
    (Message(message_format=7), "d9a1108107"),
]


@pytest.mark.parametrize("value, written", FORMS)
def test_the_form_of_each_type(value: Any, written: str) -> None:
    assert written == to_cbor(value).hex()


def test_uuids_have_their_registered_tag() -> None:
    written = "d82550" + "00112233445566778899aabbccddeeff"
    value = from_cbor(bytes.fromhex(written))
    assert "00112233-4455-6677-8899-aabbccddeeff" == str(value)
    assert written == to_cbor(value).hex()


def test_longer_cbor_forms_are_accepted() -> None:
    assert 1 == from_cbor(bytes.fromhex("1b0000000000000001"))
    assert identical(1.5, from_cbor(bytes.fromhex("fb3ff8000000000000")))
    assert identical(Float(1.5), from_cbor(bytes.fromhex("d9a108fb3ff8000000000000")))
    assert identical(UInt(5), from_cbor(bytearray.fromhex("da0000a10205")))


@pytest.mark.parametrize(
    "written, reason",
    [
        ("", "at byte 0: the input ends"),
        ("d9a100", "at byte 3: the input ends"),
        ("82f6", "at byte 0: an array of 2 items"),
        ("19ff", "at byte 0: the input ends"),
        ("0001", "at byte 1: 1 bytes follow"),
        ("9fff", "indefinite lengths"),
        ("5f4100ff", "indefinite lengths"),
        ("1c", "no item begins with 0x1C"),
        ("42ff", "a string of 2 bytes does not fit"),
        ("5bffffffffffffffff", "a string of 18446744073709551615 bytes"),
        ("9bffffffffffffffff", "an array of 18446744073709551615 items"),
        ("a10102", "a CBOR map is not part of this notation"),
        ("f7", "simple value 23"),
        ("f8ff", "simple value 255"),
        ("c249ffffffffffffffffff", "tag 2 is not part"),  # a bignum
        ("d81c81d81d00", "tag 28 is not part"),  # a list that contains itself
        ("d82361" + "28", "tag 35 is not part"),  # a regular expression
        ("c5821b7fffffffffffffff03", "tag 5 is not part"),  # a number of 2^63 digits
        ("61ff", "not CBOR"),
        ("d825420000", "not CBOR|16 bytes"),
        ("3bffffffffffffffff", r"\$: expected an integer from -9223372036854775808"),
        ("d9a10020", "an integer from 0 to 255, for ubyte, not -1"),
        ("d9a100f5", "not true"),
        ("81d9a100d9a10001", r"\$\[0\]: expected an integer .*, not tag 41216"),
        ("d9a108fb3fb999999999999a", "32 bits can represent exactly"),
        ("d9a108fb7e37e43c8800759c", "32 bits can represent exactly"),
        ("d9a1084100", "a byte string of 4 bytes, for float"),
        ("d9a1094100", "a byte string of 8 bytes, for double"),
        ("d9a10a4100", "a byte string of 4, 8 or 16 bytes"),
        ("d9a10a01", "a byte string of 4, 8 or 16 bytes"),
        ("d9a10b19d800", "not a surrogate"),
        ("d9a10b1a00110000", "not a surrogate"),
        ("d9a10c62c3a9", "ASCII"),
        ("d9a10d01", "an array, for a map"),
        ("d9a10d8101", "keys and values in turn"),
        ("d9a10d8401020103", "duplicate map key"),
        ("d9a10e80", "begins with a format code"),
        ("d9a10e8199ffff", "an array of 65535 items"),
        ("d9a10e811899", "begins with a format code"),
        ("d9a10e821871f5", r"\$\[1\]: expected an integer"),
        ("d9a10e8218544118", "an integer"),
        ("d9a10e82185419012c", "does not fit an array of constructor"),
        ("d9a10f8101", "a descriptor and a value"),
        ("81d9a1108100", r"\$\[0\]: expected a value, not tag 41232"),
        ("d9a11001", "the message-format and the sections"),
        ("d9a11080", "the message-format and the sections"),
        ("d9a1108120", r"\$\[0\]: expected a message-format"),
        ("d9a110811b0000000100000000", "a message-format"),
        ("d9a110820001", r"\$\[1\]: expected a section"),
        ("d9a11082008201f6", r"\$\[1\]\[0\]: expected a section's code"),
        ("d9a1108200821875d9a10020", r"\$\[1\]\[1\]: expected an integer"),
        ("d9a110820081413f", r"\$: the sections are not a sequence of AMQP values: at byte 0"),
        ("d9a1108200821877d9a10e82185419012c", r"\$\[1\]\[1\]: .*300.* does not fit"),
    ],
)
def test_cbor_outside_the_notation_is_refused(written: str, reason: str) -> None:
    with pytest.raises(NotationError, match=reason):
        from_cbor(bytes.fromhex(written))


def head(major: int, number: int, width: int) -> bytes:
    """Return the head of an item with its argument in at least `width` bytes."""
    if width == 0 and number < 24:
        return bytes((major << 5 | number,))
    power = next(n for n in range(4) if 1 << n >= width and number < 1 << (8 << n))
    return bytes((major << 5 | 24 + power,)) + number.to_bytes(1 << power, "big")


HEAD_WIDTHS = st.sampled_from([0, 0, 0, 1, 2, 4, 8])
NUMBERS = st.integers(0, 2**64 - 1) | st.integers(0, 300) | st.sampled_from([2**63 - 1, 2**63])
FLOATS = (
    st.floats(width=16).map(lambda number: b"\xf9" + struct.pack(">e", number))
    | st.floats(width=32).map(lambda number: b"\xfa" + struct.pack(">f", number))
    | st.floats().map(lambda number: b"\xfb" + struct.pack(">d", number))
    | st.sampled_from(["f97e00", "f9fe00", "fa7fc00001", "fb7ff8000000000001"]).map(bytes.fromhex)
)
STRINGS = st.tuples(
    st.sampled_from([2, 3]),
    st.binary(max_size=3)
    | st.text(max_size=3).map(lambda text: text.encode("utf-8", "replace"))
    | st.sampled_from([4, 8, 16]).flatmap(lambda size: st.binary(min_size=size, max_size=size)),
    HEAD_WIDTHS,
).map(lambda item: head(item[0], len(item[1]), item[2]) + item[1])
SIMPLE = st.sampled_from([b"\xf4", b"\xf5", b"\xf6", b"\xf7", b"\xe0", b"\xf8\x20", b"\x9f\xff"])
ANY_TAGS = st.integers(41216, 41232) | st.sampled_from([1, 4, 37, 41215, 41233])
ITEMS = st.recursive(
    st.tuples(st.sampled_from([0, 1]), NUMBERS, HEAD_WIDTHS).map(lambda item: head(*item))
    | FLOATS
    | STRINGS
    | SIMPLE,
    lambda inner: (
        st.tuples(st.lists(inner, max_size=4), HEAD_WIDTHS).map(
            lambda item: head(4, len(item[0]), item[1]) + b"".join(item[0])
        )
        | st.tuples(ANY_TAGS, inner).map(lambda item: head(6, item[0], 2) + item[1])
    ),
    max_leaves=10,
)
SECTION = st.tuples(st.integers(0x70, 0x79), ITEMS).map(
    lambda item: b"\x82" + head(0, item[0], 1) + item[1]
)


MESSAGES = st.tuples(NUMBERS, st.lists(SECTION | ITEMS, max_size=3)).map(
    lambda item: (
        b"\xd9\xa1\x10" + head(4, 1 + len(item[1]), 0) + head(0, item[0], 0) + b"".join(item[1])
    )
)


@given(
    ITEMS
    | MESSAGES
    | values().map(to_cbor).flatmap(mutated)
    | messages().map(to_cbor)
    | messages().map(to_cbor).flatmap(mutated)
)
def test_decoded_cbor_re_encodes_canonically(octets: bytes) -> None:
    try:
        read = from_cbor(octets)
    except NotationError as error:
        check_the_place(octets, error)
        return
    except DecodeError:
        return
    written = to_cbor(read)
    assert written == to_cbor(from_cbor(written))
    # The shortest forms of all numbers and lengths are what was written, but for NaNs, floats as
    # bits, doubles with their tag, and arrays whose elements were of another size.
    item = cbor2.loads(octets)
    again = cbor2.dumps(item, canonical=True)
    if not (isinstance(read, Message) or "nan" in repr(read) or has_unusual_number(item)):
        assert again == written


def has_unusual_number(item: Any) -> bool:
    """Whether an item contains a float as bits, or a double with its tag."""
    if type(item) is cbor2.CBORTag:
        is_number_as_bits = item.tag == 41224 and type(item.value) is bytes
        return is_number_as_bits or item.tag == 41225 or has_unusual_number(item.value)
    return isinstance(item, (list, tuple)) and any(map(has_unusual_number, item))


def check_the_place(octets: bytes, error: NotationError) -> None:
    """Check that the value at the error's path is the value in its reason."""
    if error.path == "$" and error.reason.startswith(("at byte", "the bytes are not CBOR")):
        return
    at = cbor2.loads(octets)
    for index in re.findall(r"\[(\d+)\]", error.path):
        at = untagged(at)[int(index)]
    found = re.fullmatch(r"expected .*, not (.*)", error.reason, re.DOTALL)
    if found:
        assert found[1] in {described(at), described(untagged(at))}


def described(item: Any) -> str:
    return f"tag {item.tag}" if type(item) is cbor2.CBORTag else describe(item)


def untagged(item: Any) -> Any:
    return item.value if type(item) is cbor2.CBORTag else item


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(octets: bytes) -> None:
    try:
        read = from_cbor(octets)
    except ValueError:
        return
    to_cbor(read)


def nested(levels: int, wrap: Any, inner: Any = None) -> Any:
    made = inner
    for _ in range(levels):
        made = wrap(made)
    return made


@pytest.mark.parametrize(
    "wrap",
    [
        pytest.param(lambda inner: [inner], id="list"),
        pytest.param(lambda inner: {"k": inner}, id="map"),
        pytest.param(lambda inner: Described(ULong(1), inner), id="described"),
    ],
)
def test_nesting_up_to_the_kernel_limit(wrap: Any) -> None:
    deep = nested(200, wrap)
    assert identical(deep, from_cbor(to_cbor(deep)))


@pytest.mark.parametrize("head", ["81", "d9a10d82f6", "d9a10f82f6", "d9a10e8218e082", "d9a102"])
def test_deeper_nesting_is_refused(head: str) -> None:
    with pytest.raises(NotationError):
        from_cbor(bytes.fromhex(head * 300 + "f6"))
    with pytest.raises(NotationError, match="nested too deeply"):
        from_cbor(bytes.fromhex(head * 100_000 + "f6"))


def test_unencodable_values_are_refused() -> None:
    with pytest.raises(EncodeError, match="object has no AMQP type"):
        to_cbor(object())


@pytest.mark.once
def test_without_cbor2_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cbor2", None)
    for call in (lambda: to_cbor(1), lambda: from_cbor(b"\x01")):
        with pytest.raises(ImportError, match=r"pip install 'amqp10msg\[cbor\]'"):
            call()


@pytest.mark.once
def test_importing_the_notation_does_not_import_cbor2() -> None:
    code = "import sys, amqp10msg.notation; sys.exit('cbor2' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
