"""Columns encoded to messages: nothing is lost on the way back, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import EncodeError, Message, Properties
from amqp10msg.testing import bodies, encodings, messages

pa = pytest.importorskip("pyarrow", reason='needs pyarrow: pip install "amqp10msg[arrow]"')
columns = pytest.importorskip("amqp10msg.columns")


@given(messages(body=st.none() | bodies()))
def test_message_round_trips_through_columns(message: Message) -> None:
    octets = message.encode()
    batch = columns.decode([octets, None])
    batch.validate(full=True)
    first, second = columns.encode(batch).to_pylist()

    assert batch["error_code"].to_pylist() == [None, None]
    assert message == Message.decode(first)
    assert None is second


@given(st.lists(messages(), max_size=6))
def test_batch_of_all_columns_restores_equal_messages(drawn: list[Message]) -> None:
    octets = [message.encode() for message in drawn]
    for names in ("all", [name for name in columns.SCHEMA.names if name != "section_offsets"]):
        batch = columns.decode(octets, names, message_format=[one.message_format for one in drawn])
        formats = batch["message_format"].to_pylist()
        found = [
            Message.decode(back or b"", message_format=message_format)
            for back, message_format in zip(columns.encode(batch).to_pylist(), formats, strict=True)
        ]

        assert drawn == found


@given(messages().flatmap(encodings))
def test_alternative_encodings_of_a_message(octets: bytes) -> None:
    message = Message.decode(octets)
    (back,) = columns.encode(columns.decode([octets])).to_pylist()

    assert message == Message.decode(back)


@pytest.mark.parametrize(
    "cells, path",
    [
        ({"priority": 256}, "header.priority"),
        ({"message_id": "x", "message_id_type": "ulong"}, "message_id"),
        ({"message_id": "x", "message_id_type": "int"}, "message_id"),
        ({"body_kind": "nothing"}, "body_kind"),
        ({"body_kind": "amqp-value"}, "body_json"),
        ({"body_kind": "amqp-value", "body_json": "[1"}, "body_json"),
        ({"body_kind": "amqp-value", "body_json": '["uint",-1]'}, "body_json"),
        ({"body_json": "[]"}, "body_kind"),
        ({"body_kind": "data", "body_json": "[]"}, "body"),
        ({"body": b"abc", "body_lengths": [1, 1]}, "body_lengths"),
        ({"body": b"abc", "body_lengths": [1, 3]}, "body_lengths"),
        ({"body": b"abc", "body_lengths": [4, -1]}, "body_lengths"),
        ({"body": b"", "body_lengths": []}, "body_lengths"),
        ({"body_lengths": [0]}, "body_lengths"),
        ({"body_kind": "amqp-value", "body_json": "[]", "body_lengths": [0]}, "body_lengths"),
        ({"footer": [("k", {"type": "uint", "l": -1})]}, "footer['k']"),
        ({"footer": [("k", {"type": "uint"})]}, "footer['k']"),
        ({"footer": [("k", {"type": "nothing"})]}, "footer['k']"),
        ({"footer": [("k", None)]}, "footer['k']"),
        ({"footer": [("k", {"type": "float", "b": b"123"})]}, "footer['k']"),
        ({"footer": [("k", {"type": "list", "s": '["uint",1]'})]}, "footer['k']"),
        ({"footer": [("k", {"type": "null"})] * 2}, "footer['k']"),
        ({"footer": [("k", {"type": "null", "key_type": "ulong"})]}, "footer['k']"),
        ({"footer": [("1", {"type": "null", "key_type": "uint"})]}, "footer['1']"),
    ],
)
def test_unencodable_row_is_an_error_with_its_path(cells: dict[str, Any], path: str) -> None:
    schema = pa.schema([columns.SCHEMA.field(name) for name in cells])
    batch = pa.RecordBatch.from_pylist([{}, cells], schema=schema)
    with pytest.raises(EncodeError) as caught:
        columns.encode(batch)

    assert f"row 1: {path}" == caught.value.path


@pytest.mark.parametrize("text", ['["string","a"]', '["string", "a"]'], ids=["usual", "odd"])
@pytest.mark.parametrize("row", [0, 1023, 1024, 2999])
def test_errors_name_the_row_of_a_large_batch(row: int, text: str) -> None:
    """The plain implementation encodes 1,024 rows at a time, and all of the odd ones."""
    count = 3000
    table = pa.table(
        {
            "priority": pa.array([4] * row + [256] + [4] * (count - row - 1), pa.int16()),
            "body_kind": ["amqp-value"] * count,
            "body_json": [text] * count,
        }
    )
    with pytest.raises(EncodeError) as caught:
        columns.encode(table)

    assert f"row {row}: header.priority" == caught.value.path


@pytest.mark.once
def test_fraction_of_a_millisecond_cannot_be_encoded() -> None:
    moment = pa.array([1], pa.timestamp("us", "UTC"))
    with pytest.raises(EncodeError, match="microseconds"):
        columns.encode(pa.table({"creation_time": moment}))


@pytest.mark.once
def test_integers_are_not_timestamps() -> None:
    """Arrow takes them for microseconds, and most are milliseconds."""
    with pytest.raises(TypeError, match="creation_time_ms"):
        columns.encode(pa.table({"creation_time": [1_700_000_000_000]}))


@pytest.mark.once
def test_input_must_be_a_frame() -> None:
    for wrong in (5, pa.table({"other": [1]}), pa.table({"to": [b"\xff"], "ttl": ["x"]})):
        with pytest.raises(TypeError):
            columns.encode(wrong)


@pytest.mark.once
def test_has_properties_false_omits_the_section() -> None:
    table = pa.table({"has_properties": [False, True, False], "to": ["q", None, None]})

    assert [
        Message(properties=Properties(to="q")).encode(),
        Message(properties=Properties()).encode(),
        None,
    ] == columns.encode(table).to_pylist()


def test_a_few_columns_are_enough_to_encode() -> None:
    table = pa.table({"to": ["queue", None, None], "body": [b"1", b"2", None], "other": [1, 2, 3]})

    assert [
        Message(b"1", properties=Properties(to="queue")).encode(),
        Message(b"2").encode(),
        None,
    ] == columns.encode(table, extra="ignore").to_pylist()
