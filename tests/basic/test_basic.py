"""The 0-9-1 codec: tables, properties and content headers, both ways and against bad input."""

from __future__ import annotations

import copy
import datetime
import decimal
import json
import os
import pickle
import re
import struct
from collections.abc import Callable, Iterator
from gzip import open as gzip_open
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from amqp10msg import DecodeError, EncodeError, Float, Limits
from amqp10msg.basic import (
    BasicMessage,
    BasicProperties,
    ContentHeader,
    FieldArray,
    FieldTable,
    OddTrue,
    ScaledDecimal,
    decode_content_header,
    decode_properties,
    decode_table,
    encode_content_header,
    encode_properties,
    encode_table,
)
from amqp10msg.testing import basic_properties, field_tables
from amqp10msg.wire.primitives import identical
from tests.effort import cost


def plain_fields() -> st.SearchStrategy[dict[str, Any]]:
    """Tables as users write them: dicts of Python's own values, nested."""
    first = datetime.datetime(1970, 1, 1)  # noqa: DTZ001  (that is what hypothesis takes)
    seconds = st.datetimes(first, timezones=st.just(datetime.UTC))
    plain = (
        *(st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.text(max_size=9)),
        st.floats(allow_nan=False),
        st.binary(max_size=9),
        st.binary(max_size=9).map(bytearray),
        seconds.map(lambda moment: moment.replace(microsecond=0)),
        st.integers(-(2**31), 2**31 - 1).map(lambda number: decimal.Decimal(number).scaleb(-2)),
    )
    nested = st.recursive(
        st.one_of(plain),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.lists(inner, max_size=3).map(tuple),
            st.dictionaries(st.text(max_size=9), inner, max_size=3),
        ),
        max_leaves=8,
    )
    return st.dictionaries(st.text(max_size=9), nested, max_size=4)


@given(field_tables())
def test_table_round_trips_with_letters_order_and_duplicates(table: FieldTable) -> None:
    assert table == decode_table(encode_table(table))


@given(plain_fields())
def test_decoded_table_equals_the_plain_values(fields: dict[str, Any]) -> None:
    came = decode_table(encode_table(fields))

    assert came == fields
    assert fields == came
    assert FieldTable(fields) == came
    for name, value in fields.items():
        if isinstance(value, list):
            assert value == came[name]
            assert came[name] == value
    assert came != {**fields, "another": 1}
    headers = BasicProperties(headers=fields)
    assert headers == decode_properties(encode_properties(headers))


NAN = struct.unpack(">d", bytes.fromhex("7ff8000000000001"))[0]


@given(field_tables(), st.data())
def test_tables_are_equal_if_their_bytes_are(table: FieldTable, data: st.DataObject) -> None:
    entries = list(table.entries)
    if entries:
        at = data.draw(st.integers(0, len(entries) - 1))
        name, letter, value = entries[at]
        entries[at] = data.draw(
            st.sampled_from([(f"{name[:9]}2", letter, value), (name, "V", None), (name, "d", -0.0)])
        )
    changed = FieldTable.of(entries)

    assert (encode_table(table) == encode_table(changed)) == (table == changed)


@pytest.mark.parametrize(
    "first, second, equal",
    [(0.0, 0.0, True), (0.0, -0.0, False), (NAN, NAN, True), (NAN, float("nan"), False)],
    ids=["zeros", "zeros of both signs", "one NaN", "two NaNs"],
)
def test_floats_are_equal_if_their_bits_are(first: float, second: float, equal: bool) -> None:
    tables = [FieldTable.of([("k", "d", number)]) for number in (first, second)]
    arrays = [FieldArray.of([("d", number)]) for number in (first, second)]

    assert equal == (tables[0] == tables[1]) == (arrays[0] == arrays[1])
    assert equal == (encode_table(tables[0]) == encode_table(tables[1]))


@given(field_tables())
def test_a_copy_of_a_table_or_an_array_keeps_its_letters(table: FieldTable) -> None:
    array = FieldArray.of([entry[1:] for entry in table.entries])

    assert table.entries == FieldTable(table).entries
    assert array.entries == FieldArray(array).entries
    assert array == FieldArray(array)


@given(basic_properties())
def test_properties_round_trip(properties: BasicProperties) -> None:
    assert properties == decode_properties(encode_properties(properties))


@given(basic_properties(), st.integers(0, 2**64 - 1))
def test_content_header_round_trips(properties: BasicProperties, size: int) -> None:
    header = ContentHeader(properties, size)
    octets = encode_content_header(header)

    assert header == decode_content_header(octets)
    assert octets == encode_content_header(properties, size)
    assert b"\0\x3c\0\0" + size.to_bytes(8, "big") + encode_properties(properties) == octets


def outcome(decode: Callable[..., Any], octets: bytes, **options: Any) -> Any:
    try:
        return decode(octets, **options)
    except DecodeError as error:
        return error


@given(st.binary(max_size=60), st.sampled_from(["rabbitmq", "spec", "qpid"]))
def test_any_octets_are_a_table_or_a_decode_error(octets: bytes, dialect: Any) -> None:
    data = len(octets).to_bytes(4, "big") + octets
    found: Any = outcome(decode_table, data, dialect=dialect)
    if isinstance(found, DecodeError):
        assert 0 <= found.offset <= len(data)
        assert data == found.data
    else:
        assert data == encode_table(found, dialect=dialect)


@given(basic_properties(), st.data())
def test_damaged_properties_are_decoded_or_refused(properties: BasicProperties, data: Any) -> None:
    octets = bytearray(encode_properties(properties))
    octets[data.draw(st.integers(0, len(octets) - 1))] = data.draw(st.integers(0, 255))
    changed = bytes(octets[: data.draw(st.integers(0, len(octets)))])
    found: Any = outcome(decode_properties, changed)
    if isinstance(found, DecodeError):
        assert 0 <= found.offset <= len(changed)
    else:
        assert changed == encode_properties(found)


@given(field_tables())
def test_bytes_after_a_table_are_refused(table: FieldTable) -> None:
    with pytest.raises(DecodeError) as caught:
        decode_table(encode_table(table) + b"\0")

    assert "trailing" == caught.value.rule


def table_of(octets: str) -> bytes:
    content = bytes.fromhex(octets)
    return len(content).to_bytes(4, "big") + content


@pytest.mark.parametrize(
    "octets, dialect, letter, value",
    [
        ("016b73fffe", "rabbitmq", "s", -2),
        ("016b730461626364", "spec", "s", "abcd"),
        ("016b73fffe", "qpid", "s", -2),
        ("016b55fffe", "rabbitmq", "U", -2),
        ("016b6cffffffffffffffff", "rabbitmq", "l", -1),
        ("016b6cffffffffffffffff", "spec", "l", 2**64 - 1),
        ("016b4cffffffffffffffff", "spec", "L", -1),
        ("016b7402", "rabbitmq", "t", OddTrue(2)),
        ("016b4402fffffff1", "rabbitmq", "D", ScaledDecimal(2, -15)),
        ("016b6b41", "qpid", "k", 0x41),
        ("016b5600", "rabbitmq", None, None),
    ],
)
def test_letters_of_the_dialects(octets: str, dialect: Any, letter: Any, value: Any) -> None:
    if letter is None:
        with pytest.raises(DecodeError):
            decode_table(table_of(octets), dialect=dialect)
        return
    table = decode_table(table_of(octets), dialect=dialect)

    assert [("k", letter, value)] == table.entries
    assert table_of(octets) == encode_table(table, dialect=dialect)


def nested(letter: str, levels: int) -> FieldTable:
    """A table with arrays or tables in one another."""
    field: Any = ("I", 1)
    for _ in range(levels):
        inner = FieldArray.of([field]) if letter == "A" else FieldTable.of([("k", *field)])
        field = (letter, inner)
    return FieldTable.of([("a", *field)])


@pytest.mark.parametrize("letter", ["A", "F"])
def test_tables_as_deep_as_decoding_allows_are_shown_and_compared(letter: str) -> None:
    octets = encode_table(nested(letter, 255))
    table = decode_table(octets)

    assert 256 == repr(table).count(".of([")
    assert table == nested(letter, 255)
    assert table != nested(letter, 254)


def test_recursive_table_has_repr_and_equality() -> None:
    table, other = FieldTable.of([]), FieldTable.of([])
    for one in (table, other):
        one.entries += [("a", "F", one), ("b", "A", FieldArray.of([("F", one)]))]

    assert (
        "FieldTable.of([('a', 'F', FieldTable.of([...])), "
        "('b', 'A', FieldArray.of([('F', FieldTable.of([...]))]))])"
    ) == repr(table)
    assert table == other


@pytest.mark.parametrize(
    "octets, dialect",
    [("016b78000000", "spec"), ("016b5500", "qpid"), ("016b4c", "qpid"), ("016b5a00", "rabbitmq")],
)
def test_letters_of_other_dialects_are_refused(octets: str, dialect: Any) -> None:
    with pytest.raises(DecodeError) as caught:
        decode_table(table_of(octets), dialect=dialect)

    assert ("field-letter", 6) == (caught.value.rule, caught.value.offset)
    assert "['k']" == caught.value.path


@pytest.mark.parametrize(
    "value, letter",
    [
        (None, "V"),
        (True, "t"),
        (127, "b"),
        (-129, "s"),
        (32_768, "I"),
        (-(2**31) - 1, "l"),
        (1.5, "d"),
        (Float(1.5), "f"),
        ("text", "S"),
        (b"\xff", "x"),
        (decimal.Decimal("-3.14"), "D"),
        (datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC), "T"),
        ({"a": 1}, "F"),
        ([1, "a"], "A"),
    ],
)
def test_letters_of_plain_values(value: Any, letter: str) -> None:
    table = FieldTable({"k": value})

    assert letter == table.letter("k")
    assert encode_table(table) == encode_table(decode_table(encode_table(table)))
    assert letter == FieldArray([value]).entries[0][0]


def test_a_table_is_a_mapping_of_first_fields() -> None:
    table = FieldTable.of([("a", "I", 1), ("b", "S", "x"), ("a", "l", 2)])

    assert {"a": 1, "b": "x"} == dict(table)
    assert 2 == len(table)
    assert "I" == table.letter("a")
    assert not FieldTable()
    with pytest.raises(KeyError):
        table["c"]


@given(field_tables())
def test_items_and_values_use_the_first_field_of_a_name(table: FieldTable) -> None:
    firsts = [(name, repr(table[name])) for name in table]

    assert firsts == [(name, repr(value)) for name, value in table.items()]
    assert [text for _, text in firsts] == [repr(value) for value in table.values()]


def test_items_of_a_large_table_need_one_pass() -> None:
    table = FieldTable.of([(str(number), "V", None) for number in range(10_000)])

    assert cost(lambda: [*table.items(), *table.values()], enough=50) <= 50


def test_invalid_utf8_is_kept() -> None:
    raw = table_of("02fffe5300000002c328")
    table = decode_table(raw)

    assert raw == encode_table(table)
    assert b"\xc3\x28" == table["\udcff\udcfe"].encode("utf-8", "surrogateescape")


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1))
def test_floats_keep_their_bits(single: int, double: int) -> None:
    number = struct.unpack(">d", double.to_bytes(8, "big"))[0]
    table = decode_table(
        encode_table(FieldTable.of([("f", "f", Float.from_bits(single)), ("d", "d", number)]))
    )

    assert single == table["f"].bits
    assert identical(number, table["d"])


@pytest.mark.parametrize("depth, fits", [(3, True), (4, False)])
def test_depth_is_bounded(depth: int, fits: bool) -> None:
    table: Any = {}
    for _ in range(depth - 1):
        table = {"k": table}
    octets = encode_table(table)
    if fits:
        decode_table(octets, limits=Limits(depth=3))
        return
    with pytest.raises(DecodeError) as caught:
        decode_table(octets, limits=Limits(depth=3))
    assert ("depth-limit", "amqp:resource-limit-exceeded") == (
        caught.value.rule,
        caught.value.condition,
    )


@pytest.mark.parametrize("letter", ["F", "A"])
def test_deep_nesting_is_refused_without_a_crash(letter: str) -> None:
    octets = b""
    for _ in range(3_000):
        content = (b"\x01k" if letter == "F" else b"") + letter.encode() + octets
        octets = len(content).to_bytes(4, "big") + content
    data = b"\x01kA" + octets if letter == "A" else octets[4:]
    with pytest.raises(DecodeError) as caught:
        decode_table(len(data).to_bytes(4, "big") + data)
    assert caught.value.rule in {"depth-limit", "truncated"}


def test_items_and_size_are_bounded() -> None:
    octets = encode_table({str(number): None for number in range(11)})
    decode_table(octets, limits=Limits(items=11, size=len(octets)))
    for limits, rule in ((Limits(items=10), "items-limit"), (Limits(size=9), "size-limit")):
        with pytest.raises(DecodeError) as caught:
            decode_table(octets, limits=limits)
        assert rule == caught.value.rule


def test_a_value_that_contains_itself() -> None:
    table: dict[str, Any] = {}
    table["k"] = table
    with pytest.raises(EncodeError, match="nested"):
        encode_table(table)


@pytest.mark.parametrize(
    "properties, path",
    [
        (BasicProperties(type="k" * 256), "type"),
        (BasicProperties(priority=256), "priority"),
        (BasicProperties(timestamp=-1), "timestamp"),
        (BasicProperties(headers={"k" * 256: 1}), "headers"),
        (BasicProperties(headers={"k": object()}), ""),
        (BasicProperties(headers=FieldTable.of([("k", "b", 128)])), "headers['k']"),
        (BasicProperties(headers=FieldTable.of([("k", "c", "x")])), "headers['k']"),
        (BasicProperties(headers=FieldTable.of([("k", "V", 1)])), "headers['k']"),
        (BasicProperties(reply_to="\ud800"), "reply-to"),
        (BasicProperties(app_id=5), "app-id"),  # type: ignore[arg-type]
    ],
)
def test_invalid_property_is_an_encode_error(properties: BasicProperties, path: str) -> None:
    with pytest.raises(EncodeError) as caught:
        encode_properties(properties)

    assert caught.value.path.startswith(path)


@pytest.mark.parametrize(
    "octets, rule, offset",
    [
        ("", "truncated", 0),
        ("80", "truncated", 0),
        ("0001", "property-flags", 0),
        ("0002", "property-flags", 0),
        ("8000", "truncated", 2),
        ("80000561", "truncated", 2),
        ("1000", "truncated", 2),
        ("004000000000", "truncated", 2),
        ("200000000003016b", "truncated", 2),
        ("00007a", "trailing", 2),
    ],
)
def test_malformed_properties_are_refused(octets: str, rule: str, offset: int) -> None:
    with pytest.raises(DecodeError) as caught:
        decode_properties(bytes.fromhex(octets))

    assert (rule, offset) == (caught.value.rule, caught.value.offset)


@given(st.integers(0, 2**64 - 1), st.none() | st.integers(0, 2**64 - 1))
@example(7, 0)
def test_size_argument_replaces_the_size_in_a_content_header(size: int, argument: Any) -> None:
    properties = BasicProperties(priority=1)
    header = ContentHeader(properties, size)
    made = decode_content_header(encode_content_header(header, argument))
    assert ContentHeader(properties, size if argument is None else argument) == made

    made = decode_content_header(encode_content_header(properties, argument))
    assert ContentHeader(properties, 0 if argument is None else argument) == made


@pytest.mark.parametrize(
    "octets, rule",
    [("003c0000", "truncated"), ("003d0000" + "00" * 10, "content-class")],
)
def test_malformed_content_headers_are_refused(octets: str, rule: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode_content_header(bytes.fromhex(octets))

    assert rule == caught.value.rule


def test_error_path_in_nested_tables() -> None:
    octets = encode_table({"a": {"b": [1, "text"]}})
    with pytest.raises(DecodeError) as caught:
        decode_properties(b"\x20\0" + octets[:-1].replace(b"S\0\0\0\4", b"S\0\0\0\5") + b"t")

    assert "headers['a']['b'][1]" == caught.value.path


@pytest.mark.parametrize(
    "number, scaled",
    [("1.50", (2, 150)), ("-0.01", (2, -1)), ("1E+3", (0, 1000)), ("2147483647", (0, 2**31 - 1))],
)
def test_decimals_keep_their_digits(number: str, scaled: tuple[int, int]) -> None:
    made = ScaledDecimal.from_decimal(decimal.Decimal(number))

    assert ScaledDecimal(*scaled) == made
    assert decimal.Decimal(number) == made.to_decimal()


@pytest.mark.parametrize("number", ["2147483648", "1E-256", "NaN", "Infinity", "1E+400"])
def test_inexact_decimals_are_refused(number: str) -> None:
    with pytest.raises(EncodeError):
        ScaledDecimal.from_decimal(decimal.Decimal(number))


def test_default_message_is_empty() -> None:
    assert BasicMessage() == BasicMessage(BasicProperties(), b"", "", "", False)
    assert b"\0\0" == encode_properties(BasicMessage().properties)


# What other projects test with.

FOLDER = os.environ.get("AMQP10MSG_VECTORS")
others = pytest.mark.skipif(
    FOLDER is None, reason="AMQP10MSG_VECTORS names no folder with cases of other projects"
)


def cases(kind: str) -> Iterator[dict[str, Any]]:
    with gzip_open(Path(FOLDER or "") / "cases.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            case = json.loads(line)
            if case["kind"] == kind and case["must"] != "convention":
                yield case


def stated(field: dict[str, Any]) -> Any:
    """The value that a case states, as this library gives it."""
    kind = field["t"]
    if kind == "table":
        return FieldTable.of([(key, item["tag"], stated(item)) for key, item in field["v"]])
    if kind == "array":
        return FieldArray.of([(item["tag"], stated(item)) for item in field["v"]])
    if kind == "decimal":
        return ScaledDecimal(field["scale"], field["v_signed"])
    if kind == "float":
        return Float.from_bits(int(field["bits"], 16))
    if kind == "double":
        return struct.unpack(">d", bytes.fromhex(field["bits"]))[0]
    if kind == "timestamp":
        return field["seconds"]
    if "hex" in field:
        octets = bytes.fromhex(field["hex"])
        return octets if field.get("tag") == "x" else octets.decode("utf-8", "surrogateescape")
    return field.get("v")


def plain(table: FieldTable) -> list[Any]:
    """Fields by Python's equality: the cases state an odd true as true."""
    return [(name, letter, value) for name, letter, value in table.entries]


@others
def test_field_tables_of_other_projects() -> None:
    seen = 0
    for case in cases("field-table"):
        octets = bytes.fromhex(case["hex"])
        seen += 1
        expected = case["expect"].get("table") or case["expect"].get("lenient", {}).get("table")
        try:
            table = decode_table(octets)
        except DecodeError:
            assert "accept" != case["must"], case["id"]
            continue
        assert "reject" != case["must"], case["id"]
        assert octets == encode_table(table), case["id"]
        if expected is not None:
            made = FieldTable.of([(key, item["tag"], stated(item)) for key, item in expected])
            assert made == table or plain(made) == plain(table), case["id"]
    assert seen > 50


@others
def test_properties_of_other_projects() -> None:
    seen = 0
    for case in cases("basic-properties"):
        octets = bytes.fromhex(case["hex"])
        seen += 1
        if case["must"] == "reject":
            with pytest.raises(DecodeError) as caught:
                decode_properties(octets)
            assert case["expect"]["at"] == caught.value.offset, case["id"]
            continue
        properties = decode_properties(octets)
        assert octets == encode_properties(properties), case["id"]
        for name, field in case["expect"]["properties"].items():
            assert stated(field) == getattr(properties, name.replace("-", "_")), case["id"]
    assert seen > 10


# Properties keep the bytes that they were decoded from, and give them back while they say the same.


def anew(value: Any) -> Any:
    """Return a value with new tables and arrays in the place of its own."""
    if isinstance(value, FieldTable):
        return FieldTable.of([(name, letter, anew(held)) for name, letter, held in value.entries])
    if isinstance(value, FieldArray):
        return FieldArray.of([(letter, anew(held)) for letter, held in value.entries])
    return OddTrue(value.octet) if isinstance(value, OddTrue) else value


def said(properties: BasicProperties) -> BasicProperties:
    """Return properties that say the same, and were never decoded."""
    return BasicProperties(
        **{name: anew(getattr(properties, name)) for name in BasicProperties.__match_args__}
    )


def containers(value: Any) -> Iterator[Any]:
    """Walk a value's tables and arrays, itself first."""
    if isinstance(value, (FieldTable, FieldArray)):
        yield value
        for entry in value.entries:
            yield from containers(entry[-1])


DIALECTS: list[Any] = ["rabbitmq", "spec", "qpid"]


@given(basic_properties())
def test_unchanged_properties_encode_to_the_same_bytes(properties: BasicProperties) -> None:
    octets = encode_properties(properties)
    decoded = decode_content_header(b"\0\x3c\0\0" + bytes(7) + b"\x05" + octets).properties

    assert octets == encode_properties(decoded) == encode_properties(said(decoded))
    with_header = encode_content_header(decoded, 2**63 + 7)
    assert b"\0\x3c\0\0" + (2**63 + 7).to_bytes(8, "big") + octets == with_header


@given(st.binary(max_size=80), st.sampled_from(DIALECTS), st.sampled_from(DIALECTS))
def test_decoded_properties_encode_their_values(table: bytes, dialect: Any, other: Any) -> None:
    octets = b"\x20\0" + len(table).to_bytes(4, "big") + table
    try:
        decoded = decode_properties(octets, dialect=dialect)
    except DecodeError:
        return

    for way in (dialect, other):
        try:
            expected: Any = encode_properties(said(decoded), dialect=way)
        except EncodeError as error:
            with pytest.raises(EncodeError, match=f"^{re.escape(str(error))}$"):
                encode_properties(decoded, dialect=way)
        else:
            assert expected == encode_properties(decoded, dialect=way)


CHANGES = ("set", "none", "headers", "rebind", "append", "insert", "remove", "replace", "odd")


@given(basic_properties(), st.data())
def test_changed_properties_are_encoded_with_the_change(
    properties: BasicProperties, data: Any
) -> None:
    decoded = decode_properties(encode_properties(properties))
    for change in data.draw(st.lists(st.sampled_from(CHANGES), min_size=1, max_size=3)):
        held = list(containers(decoded.headers))
        if change == "set":
            decoded.priority = data.draw(st.integers(0, 255))
            decoded.message_id = data.draw(st.sampled_from(["m-1", "m-2"]))
        elif change == "none":
            setattr(decoded, data.draw(st.sampled_from(BasicProperties.__match_args__)), None)
        elif change == "headers":
            decoded.headers = data.draw(st.sampled_from([FieldTable(), {"a": 1}]))
        elif held:
            one = data.draw(st.sampled_from(held))
            extra: Any = ("t", OddTrue(7)) if change == "odd" else ("I", 5)
            if isinstance(one, FieldTable):
                extra = ("k", *extra)
            if change == "rebind":
                one.entries = [*one.entries, extra]
            elif change in ("append", "odd"):
                one.entries.append(extra)
            elif change == "insert":
                one.entries.insert(0, extra)
            elif one.entries:
                at = data.draw(st.integers(0, len(one.entries) - 1))
                one.entries[at : at + 1] = [extra] if change == "replace" else []

        assert encode_properties(said(decoded)) == encode_properties(decoded)
    for copied in (
        copy.copy(decoded),
        copy.deepcopy(decoded),
        pickle.loads(pickle.dumps(decoded)),
        attrs.evolve(decoded),
    ):
        assert decoded == copied
        copied.app_id = "another"
        assert encode_properties(said(copied)) == encode_properties(copied)


def test_the_byte_of_an_odd_boolean_can_be_changed() -> None:
    decoded = decode_properties(b"\x20\0" + table_of("01 61 74 07"))
    headers: Any = decoded.headers
    headers.entries[0][2].octet = 9

    assert b"\x20\0" + table_of("01 61 74 09") == encode_properties(decoded)


def test_deleted_property_raises_when_encoding() -> None:
    decoded = decode_properties(encode_properties(BasicProperties(app_id="a")))
    del decoded.app_id

    with pytest.raises(AttributeError):
        encode_properties(decoded)


def test_subclass_property_overrides_are_encoded() -> None:
    class Louder(BasicProperties):
        __slots__ = ()

        @property
        def app_id(self) -> str:  # type: ignore[override]
            return "LOUDER"

    decoded = decode_properties(encode_properties(BasicProperties(app_id="a", type="t")))
    decoded.__class__ = Louder

    assert encode_properties(BasicProperties(app_id="LOUDER", type="t")) == encode_properties(
        decoded
    )


def _nested(levels: int, name: str) -> tuple[bytes, Any]:
    """Return tables nested so deep, with a fault in the inmost: their bytes, and as dicts."""
    body = b"\x01e\xff"
    table: Any = {"e": object()}
    for _ in range(levels):
        body = bytes([len(name)]) + name.encode() + b"F" + len(body).to_bytes(4, "big") + body
        table = {name: table}
    return len(body).to_bytes(4, "big") + body, table


@pytest.mark.parametrize(
    "call, fault, argument",
    [
        (decode_table, DecodeError, _nested(40, "k" * 50)[0]),
        (encode_table, EncodeError, _nested(40, "k" * 50)[1]),
    ],
    ids=["decode", "encode"],
)
def test_text_of_an_error_shortens_a_long_path(call: Any, fault: Any, argument: Any) -> None:
    with pytest.raises(fault) as caught:
        call(argument)

    path, text = caught.value.path, str(caught.value)
    assert path.startswith(f"['{'k' * 50}']" * 40)
    assert path not in text
    assert f"{path[:160]}…{path[-60:]}" in text
    assert len(text) < 500


HEADER = encode_content_header(
    BasicProperties(content_type="a", headers={"k": b"x"}, priority=1), 5
)


@pytest.mark.parametrize(
    "octets, path, text",
    [
        *((HEADER[:size], "class-id", f"cut off after {size} byte") for size in (0, 1)),
        *(
            (HEADER[:size], "weight", f"cut off after {size} bytes, in its weight: ")
            for size in (2, 3)
        ),
        *(
            (HEADER[:size], "body-size", f"cut off after {size} bytes, in its body size: ")
            for size in (4, 11)
        ),
        *(
            (HEADER[:size], "property-flags", f"cut off after {size} bytes, in its property flags")
            for size in (12, 13)
        ),
        (b"\0\x3d" + HEADER[2:], "class-id", "the class is 61, not basic"),
        (HEADER[:12] + b"\0\1" + HEADER[14:], "property-flags", "the property flags continue"),
        (HEADER[:12] + b"\0\2" + HEADER[14:], "property-flags", "unknown property flag"),
        (HEADER[:15], "content-type", "a short string needs 2 bytes"),
        (HEADER[:20], "headers", "needs"),
        (HEADER[:-1], "priority", "a byte needs 1 bytes"),
    ],
)
def test_damaged_part_of_a_content_header_is_named(octets: bytes, path: str, text: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode_content_header(octets)

    assert (path, True) == (caught.value.path, text in str(caught.value))


@given(st.integers(0, len(HEADER) - 1))
def test_every_cut_of_a_content_header_names_its_part(size: int) -> None:
    with pytest.raises(DecodeError) as caught:
        decode_content_header(HEADER[:size])

    assert "truncated" == caught.value.rule
    assert caught.value.path


@pytest.mark.parametrize(
    "headers, path",
    [
        ({"k": object()}, "headers['k']"),
        ({"k": 2**70}, "headers['k']"),
        ({"k": [1, object()]}, "headers['k'][1]"),
        ({"a": {"k": object()}}, "headers['a']['k']"),
        ({"a": [1, {"b": [{1}]}]}, "headers['a'][1]['b'][0]"),
    ],
)
def test_error_for_value_without_a_field_type_has_its_path(headers: Any, path: str) -> None:
    with pytest.raises(EncodeError) as caught:
        encode_properties(BasicProperties(headers=headers))

    assert path == caught.value.path
