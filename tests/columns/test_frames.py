"""Columns to and from the frames that speak Arrow: pandas, Polars, DuckDB."""

from __future__ import annotations

from typing import Any

import pytest

from amqp10msg import AmqpSequence, Header, Message, Properties, Symbol, Timestamp, UInt
from bench.messages import REFERENCE

pa = pytest.importorskip("pyarrow", reason='needs pyarrow: pip install "amqp10msg[arrow]"')
columns = pytest.importorskip("amqp10msg.columns")

OCTETS: list[bytes | None] = [
    REFERENCE,
    None,
    REFERENCE[:77],
    Message(
        [AmqpSequence([1, "a"])],
        header=Header(priority=9),
        properties=Properties(message_id=2**64 - 1, creation_time=253_402_300_799_999),
        application_properties={"n": UInt(5), "t": Timestamp(1)},
        message_annotations={"x-opt-s": Symbol("s")},
    ).encode(),
    b"",
]
NAMES = [*columns.SCHEMA.names, "wire"]


@pytest.fixture
def batch() -> Any:
    return columns.decode(OCTETS, NAMES)


def test_pandas_round_trip(batch: Any) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"payload": OCTETS})

    assert batch.equals(columns.decode(frame["payload"], NAMES))
    decoded = batch.to_pandas()
    assert decoded["message_id"].tolist()[0] == "msg-00417"
    # A frame of pandas has no maps and no null integers of its own: its Arrow types have both.
    typed = batch.to_pandas(types_mapper=pandas.ArrowDtype)
    assert OCTETS == columns.encode(typed).to_pylist()


def test_polars_round_trip(batch: Any) -> None:
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"payload": OCTETS})

    assert batch.equals(columns.decode(frame["payload"], NAMES))
    decoded = polars.from_arrow(batch)
    assert decoded.filter(polars.col("to") == "orders").height == 1
    assert OCTETS == columns.encode(decoded).to_pylist()


@pytest.mark.parametrize("make", [pa.list_, pa.large_list])
@pytest.mark.parametrize("text", [pa.string(), pa.large_string(), pa.string_view()])
def test_lists_of_key_value_structs_are_accepted_as_maps(batch: Any, make: Any, text: Any) -> None:
    """As Polars gave them before it had maps."""
    table = pa.table(batch)
    kind = make(pa.struct({"key": text, "value": columns.VALUE}))
    for place, field in enumerate(table.schema):
        if field.name in columns.MAPS:
            pairs = [
                entries and [{"key": key, "value": value} for key, value in entries]
                for entries in table.column(place).to_pylist()
            ]
            # The first is of a slice.
            lists = pa.chunked_array([pa.array([*pairs[:1], *pairs], kind).slice(1)])
            table = table.set_column(place, field.name, lists)

    assert OCTETS == columns.encode(table).to_pylist()
    one = pa.array([[{"key": None, "value": None}]], kind)
    with pytest.raises(TypeError, match="footer must be map"):
        columns.encode(pa.table({"footer": one}))


def test_hidden_items_of_null_lists_are_dropped(batch: Any) -> None:
    maps = pa.table(batch).column("application_properties").combine_chunks().drop_null()
    pairs = pa.StructArray.from_arrays([maps.keys, maps.items], names=["key", "value"])
    one, rest = pairs.slice(0, 1), pairs.slice(0, 2)
    lists = pa.ListArray.from_arrays(
        pa.array([0, 1, 1 + len(rest), 2 + len(rest)], pa.int32()),
        pa.concat_arrays([one, rest, one]),
        mask=pa.array([False, True, False]),
    )
    first, none, last = columns.encode(pa.table({"application_properties": lists})).to_pylist()

    assert first == last != none


def test_duckdb_round_trip(batch: Any) -> None:
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        connection.register("payloads", pa.table({"payload": pa.array(OCTETS, pa.binary())}))
        wire = connection.sql("SELECT payload FROM payloads").to_arrow_table()["payload"]
        assert batch.equals(columns.decode(wire, NAMES))
        connection.register("decoded", pa.table(batch))
        found = connection.sql(
            "SELECT application_properties['tenant'].s, error_code, message_id_type FROM decoded"
        ).fetchall()
        back = connection.sql("SELECT * FROM decoded").to_arrow_table()

    assert [
        ("acme", None, "string"),
        (None, None, None),
        (None, "truncated", None),
        (None, None, "ulong"),
        (None, None, None),
    ] == found
    assert OCTETS == columns.encode(back).to_pylist()


def test_parquet_keeps_every_column(batch: Any, tmp_path: Any) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pa.table(batch), tmp_path / "messages.parquet")
    back = parquet.read_table(tmp_path / "messages.parquet")

    assert pa.table(batch).equals(back)


@pytest.mark.parametrize("kind", ["string", "large_string", "string_view"])
def test_a_dictionary_is_its_values(kind: str) -> None:
    """As the categories of pandas and Polars come: texts, and views of them."""
    pa = pytest.importorskip("pyarrow")
    indices = pa.array([0, 1, None, 0], pa.uint32())
    values = pa.array(["text/plain", "text/html"], getattr(pa, kind)())
    table = pa.table({"content_type": pa.DictionaryArray.from_arrays(indices, values)})

    plain = pa.table({"content_type": ["text/plain", "text/html", None, "text/plain"]})
    assert columns.encode(plain) == columns.encode(table)
