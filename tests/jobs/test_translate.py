"""Translation of columns: what the translator gives for one message, and nothing less."""

from __future__ import annotations

import importlib
from collections import Counter
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqp10msg import Header, Message, Properties, ULong
from amqp10msg.basic import (
    BasicMessage,
    BasicProperties,
    decode_content_header,
    encode_content_header,
)
from amqp10msg.testing import basic_messages, messages
from amqp10msg.translate import to_amqp10, to_basic
from amqp10msg.translate.report import ADDED_AT_DELIVERY_REASON

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: make setup")

import pyarrow.parquet as pq  # noqa: E402

from amqp10msg import jobs  # noqa: E402
from amqp10msg.jobs import Job  # noqa: E402
from amqp10msg.jobs._stats import Stats  # noqa: E402

translating = importlib.import_module("amqp10msg.jobs.translating")
TO_BASIC = translating.Translator("0-9-1", "lossless")
TO_AMQP10 = translating.Translator("1.0", "lossless")


def cells_of(basic: BasicMessage) -> dict[str, Any]:
    """The columns of a message of 0-9-1."""
    header = encode_content_header(basic.properties, len(basic.body))
    cells = {"content_header": header, "payload": basic.body}
    return cells | {name: getattr(basic, name) for name in translating.BASIC.names[2:]}


def is_text(text: str) -> bool:
    return text == text.encode(errors="replace").decode()


def columns_of(rows: list[dict[str, Any]], schema: Any) -> dict[str, Any]:
    return dict(zip(schema.names, pa.Table.from_pylist(rows, schema).columns, strict=True))


def rows_of(made: dict[str, Any]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pa.table(made).to_pylist()
    return rows


def test_message_fields_are_columns() -> None:
    said = {field.name for field in attrs.fields(BasicMessage)}

    columns = {"content_header": "properties", "payload": "body"}
    assert said == {columns.get(name, name) for name in translating.BASIC.names}


@given(st.lists(messages().map(Message.encode), max_size=3))
def test_batch_round_trip_equals_row_by_row(wires: list[bytes]) -> None:
    there = rows_of(TO_BASIC.run({"wire": pa.array(wires, pa.binary())}))
    back = rows_of(TO_AMQP10.run(columns_of(there, translating.BASIC)))

    for wire, basic, row in zip(wires, there, back, strict=True):
        expected = to_basic(Message.decode(wire)).message
        if basic["error_code"] is not None:
            assert not (is_text(expected.exchange) and is_text(expected.routing_key))
            continue
        assert cells_of(expected) == {name: basic[name] for name in translating.BASIC.names}
        # As another process reads it.
        header = decode_content_header(basic["content_header"])
        came = attrs.evolve(expected, properties=header.properties)
        assert to_amqp10(came).message.encode() == row["wire"]


@given(st.lists(basic_messages(), max_size=4))
def test_size_of_basic_message_includes_content_header(messages: list[BasicMessage]) -> None:
    rows = [
        cells_of(message)
        for message in messages
        if is_text(message.exchange) and is_text(message.routing_key)
    ]
    sizes = [len(row["content_header"]) + len(row["payload"]) for row in rows]
    batch = pa.RecordBatch.from_pylist(rows, translating.BASIC)
    stats, bodiless_stats = Stats(), Stats()

    Job("translate", to="1.0").run(batch, stats)
    Job("translate", to="1.0").run(
        batch.set_column(
            batch.schema.get_field_index("payload"), "payload", pa.nulls(len(rows), pa.binary())
        ),
        bodiless_stats,
    )

    assert sum(sizes) == stats.octets
    assert Counter(size.bit_length() for size in sizes) == stats.sizes
    assert sum(len(row["content_header"]) for row in rows) == bodiless_stats.octets


@given(st.lists(basic_messages(), max_size=3))
def test_basic_messages_round_trip_byte_for_byte(found: list[BasicMessage]) -> None:
    given = [cells_of(basic) for basic in found]
    texts = [is_text(basic.exchange) and is_text(basic.routing_key) for basic in found]
    wires = [to_amqp10(basic).message.encode() for basic in found]

    there = TO_AMQP10.run(
        columns_of([row for row, good in zip(given, texts, strict=True) if good], translating.BASIC)
    )
    back = rows_of(TO_BASIC.run({"wire": pa.array(wires, pa.binary())}))

    assert [w for w, good in zip(wires, texts, strict=True) if good] == there["wire"].to_pylist()
    for cells, good, row in zip(given, texts, back, strict=True):
        if good:
            assert cells == {name: row[name] for name in cells}
        else:
            assert ("not-translatable", None) == (row["error_code"], row["payload"])
            assert "must be valid UTF-8" in row["error_text"]


def test_row_with_only_delivery_columns_is_empty() -> None:
    row = {"redelivered": False, "exchange": "e"}

    (made,) = rows_of(TO_AMQP10.run(columns_of([row], translating.BASIC)))

    assert {None} == {*made.values()}


@pytest.mark.parametrize("count", [0, 1, 2])
def test_job_keeps_redelivered_flag(tmp_path: Path, count: int) -> None:
    wire = Message(b"x", header=Header(delivery_count=count)).encode()
    # What a spooler says of a message of 1.0 is in its header, too.
    row = {"wire": wire, "redelivered": count > 0}
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "in.parquet")

    jobs.run(tmp_path / "in.parquet", tmp_path / "basic", Job("translate", to="0-9-1"), workers=1)
    jobs.run(tmp_path / "basic" / "messages", tmp_path / "out", Job("translate"), workers=1)

    (there,) = pq.read_table(tmp_path / "basic" / "messages").to_pylist()
    (back,) = pq.read_table(tmp_path / "out" / "messages").to_pylist()
    assert (count > 0, wire) == (there["redelivered"], back["wire"])
    assert "redelivered" not in back


@pytest.mark.parametrize("to, old", [("1.0", "0-9-1"), ("0-9-1", "1.0")])
@pytest.mark.parametrize(
    "kind",
    [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())],
    ids=str,
)
def test_translated_messages_have_the_target_protocol(to: str, old: str, kind: Any) -> None:
    """Quarantined rows keep theirs. A `protocol` column without text is the user's: it is kept."""
    basic = cells_of(BasicMessage(BasicProperties(), b"x"))
    sound = basic if to == "1.0" else {"wire": Message(b"x").encode()}
    broken = {"content_header": b"?", "payload": b""} if to == "1.0" else {"wire": b"?"}
    columns = {name: [sound.get(name), broken.get(name)] for name in sound}
    batch = pa.record_batch(
        {**columns, "protocol": pa.array([old, old], pa.string()).cast(kind), "n": [1, 2]}
    )
    own = batch.set_column(batch.schema.get_field_index("protocol"), "protocol", pa.array([5, 5]))

    good, bad = Job("translate", to=to).run(batch, Stats())
    other, _ = Job("translate", to=to).run(own, Stats())

    assert kind == good.schema.field("protocol").type
    assert [(to, 1)] == [(row["protocol"], row["n"]) for row in good.to_pylist()]
    assert [(old, 2)] == [(row["protocol"], row["n"]) for row in bad.to_pylist()]
    assert [5] == [row["protocol"] for row in other.to_pylist()]


def test_job_counts_are_a_table(tmp_path: Path) -> None:
    message = Message(
        b"x", properties=Properties(to="a"), application_properties={"u": ULong(2**63)}
    )
    rows = [message.encode()] * 3 + [b"\xff", None]
    pq.write_table(pa.table({"wire": rows}), tmp_path / "in.parquet")
    job = Job("translate", to="0-9-1", profile="rabbitmq-4.0")

    stats = jobs.run(tmp_path / "in.parquet", tmp_path / "out", job, workers=1)

    expected = """\
messages                                                 4  106 bytes
good                                                     3
quarantined                                              1
skipped                                                  1  rows without a message
  unknown-constructor                                    1  at byte 0: 0xFF is not a format code of Part 1
  application-properties[u] wrapped, for good            3  0-9-1 has no unsigned 64-bit number
  properties.to dropped, for good                        3  0-9-1 has no such property"""  # noqa: E501
    assert expected == str(stats) == str(jobs.read_stats(tmp_path / "out"))
    assert "Stats(rows=4, octets=106, errors=1, skipped=1, ...)" == repr(stats)


def test_stats_count_values_lost_for_good_after_recoverable_ones() -> None:
    """A path and an action may be recoverable in one message and permanent in the next."""
    first, second = Stats(), Stats()
    first.add_losses(losses_of(("headers['k']", "retyped", True, "it comes back")))
    second.add_losses(losses_of(("headers['k']", "retyped", False, "it does not")))
    mark = ("headers['x-delivery-count']", "dropped", False, ADDED_AT_DELIVERY_REASON)
    second.add_losses(losses_of(mark, mark))

    for one, other in ((first, second), (second, first)):
        total = Stats()
        total.add(one)
        total.add(other)
        assert 1 == total.lost_for_good
        row = ("headers['k']", "retyped, 1 of 2 for good", 2, "it does not")
        assert row in [*total.lost()]
        again = Stats.from_json(total.as_json())
        assert [*total.lost()] == [*again.lost()]


def test_stats_count_all_losses_of_many_paths() -> None:
    stats = Stats()
    for start in range(0, 12_000, 4_000):
        rows = [(f"headers['{n}']", "dropped", False, "gone") for n in range(start, start + 4_000)]
        stats.add_losses(losses_of(*rows))

    assert 12_000 == stats.losses.total() == stats.lost_for_good
    assert len(stats.losses) < 11_000


def losses_of(*rows: tuple[str, str, bool, str]) -> Any:
    """Return an array of lists of losses, as a job passes it to its counts."""
    names = ("path", "action", "recoverable", "reason")
    return pa.array([[dict(zip(names, row, strict=True))] for row in rows])
