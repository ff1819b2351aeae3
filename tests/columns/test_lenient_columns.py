"""`columns.decode` with ``strict=False``: readable values of invalid messages, and the error."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from amqp10msg import (
    DecodeError,
    Described,
    Header,
    Message,
    Properties,
    Symbol,
    UInt,
    ULong,
    encode_value,
    validate,
)
from amqp10msg.testing import encodings, messages

pa = pytest.importorskip("pyarrow", reason='needs pyarrow: pip install "amqp10msg[arrow]"')
columns = pytest.importorskip("amqp10msg.columns")

ERRORS = ["error_code", "error_clause", "error_offset"]
SOUND = Message(
    b"body",
    header=Header(durable=True),
    properties=Properties(message_id="m-1", subject="s"),
    application_properties={"tenant": "acme"},
)


def section(code: int, value: Any) -> bytes:
    return encode_value(Described(ULong(code), value))


DATA = section(0x75, b"x")


@given(st.lists(messages().flatmap(encodings), max_size=4), st.booleans())
def test_sound_messages_are_decoded_as_in_strict_mode(octets: list[bytes], variant: bool) -> None:
    maps: Any = "variant" if variant else "map"

    strict, lenient = (columns.decode(octets, maps=maps, strict=mode) for mode in (True, False))

    assert repr(strict.to_pylist()) == repr(lenient.to_pylist())


@given(messages().flatmap(encodings), st.data(), st.sampled_from(["all", "lean", ERRORS]))
@example(SOUND.encode(), None, "all")
def test_damaged_messages_keep_the_error_and_never_raise(
    octets: bytes, data: Any, names: Any
) -> None:
    damaged = bytearray(octets)
    if data is not None and damaged:
        for index in data.draw(st.lists(st.integers(0, len(damaged) - 1), max_size=3)):
            damaged[index] = data.draw(st.integers(0, 255))
        del damaged[data.draw(st.integers(0, len(damaged))) :]
    batch = [SOUND.encode(), bytes(damaged), None]

    strict, lenient = columns.decode(batch, names), columns.decode(batch, names, strict=False)

    assert strict.schema == lenient.schema
    errors = [name for name in (*ERRORS, "error") if name in strict.schema.names]
    assert strict.select(errors).equals(lenient.select(errors))
    rows = zip(strict.to_pylist(), lenient.to_pylist(), strict=True)
    for before, after in rows:
        is_error = any(before[name] is not None for name in errors)
        kept = {name: after[name] for name, value in before.items() if value is not None}
        expected = kept if is_error else after
        assert repr({name: before[name] for name in expected}) == repr(expected)


#: {what is wrong: (the message, the values that are readable)}
INVALID: dict[str, tuple[bytes, dict[str, Any]]] = {
    "cut body": (SOUND.encode()[:-2], {"message_id": "m-1", "durable": True, "body": None}),
    "order": (DATA + section(0x70, [True]), {"durable": True, "body": b"x"}),
    "field types": (
        section(0x73, [5, "no binary", 7, "s"]) + DATA,
        {"message_id": None, "message_id_type": None, "to": None, "subject": "s", "body": b"x"},
    ),
    "header types": (
        section(0x70, [0, 300, UInt(9), None, -1]) + DATA,
        {"durable": False, "priority": 4, "ttl": 9},
    ),
    "keys": (
        section(0x74, {1: 2, "tenant": "acme"}) + DATA,
        {"application_properties": ["tenant"], "body": b"x"},
    ),
    "mixed body": (
        section(0x73, ["m"]) + DATA + section(0x77, "v"),
        {"message_id": "m", "body": None, "body_kind": None},
    ),
    "unknown section": (section(0x70, [True]) + section(0x99, 5), {"durable": True}),
    "section of a wrong type": (section(0x70, {"a": 1}) + DATA, {"durable": None, "body": b"x"}),
    "annotation": (
        section(0x72, {"a": 1, Symbol("x"): 2, ULong(5): 3}) + DATA,
        {"message_annotations": ["a", "x", "5"]},
    ),
}


@pytest.mark.parametrize("name", INVALID)
@pytest.mark.parametrize("names", ["all", None])
def test_readable_values_of_invalid_messages(name: str, names: Any) -> None:
    octets, expected = INVALID[name]
    with pytest.raises(DecodeError):
        Message.decode(octets)
    selection = [*expected, *ERRORS] if names is None else names

    (row,) = columns.decode([octets], selection, strict=False).to_pylist()

    for column, value in expected.items():
        actual = row[column]
        is_map = column in columns.MAPS and actual is not None
        assert value == ([key for key, _ in actual] if is_map else actual), column
    first = validate(octets)[0]
    assert (first.rule, first.offset) == (row["error_code"], row["error_offset"])
    if names == "all":
        assert row["section_offsets"] is None


def test_message_without_a_readable_section_has_only_the_error_of_strict_decoding() -> None:
    octets = bytes.fromhex("005371000100005372c1010000537345005376c006017200000000005378c10100")

    strict, lenient = (columns.decode([octets], strict=mode) for mode in (True, False))

    assert "section-value-type" == strict.column("error_code")[0].as_py()
    assert strict.equals(lenient)


def test_entries_and_variants_of_invalid_messages() -> None:
    octets = SOUND.encode()[:-2]
    names = ["application_properties.tenant string", "body_text", "wire", "error"]

    (row,) = columns.decode([octets], names, maps="variant", strict=False).to_pylist()

    assert ("acme", octets) == (row["tenant"], row["wire"])
    assert "truncated" == row["error"]["code"]
    assert columns.decode([octets], names).to_pylist()[0]["tenant"] is None
