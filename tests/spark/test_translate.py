"""`amqp10msg.spark.translate`: 0-9-1 and 1.0, held against the translator without Spark."""

from __future__ import annotations

import importlib
import json
import random
from pathlib import Path
from typing import Any, Literal

import pytest

from amqp10msg import Header, Message, Properties

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark", reason="pyspark is not installed: pip install '.[spark]'")
translation = pytest.importorskip("amqp10msg.translate")
basic = importlib.import_module("amqp10msg.basic")

import pyarrow.parquet as pq  # noqa: E402

from amqp10msg import spark  # noqa: E402
from amqp10msg.jobs import Job, output_of  # noqa: E402
from amqp10msg.jobs.translating import BASIC  # noqa: E402
from amqp10msg.translate import ProfileName  # noqa: E402

pytestmark = [pytest.mark.once, pytest.mark.xdist_group("spark")]

WIRES = [
    Message(b"x", properties=Properties(message_id="m"), application_properties={"a": 1}).encode(),
    Message({"a": [1, None]}, message_annotations={"x-opt-a": 1.5}).encode(),
    Message("text", properties=Properties(user_id=b"\xff", subject="s")).encode(),
    *(
        Message(b"x", header=Header(True, first_acquirer=first, delivery_count=count)).encode()
        for first in (False, True)
        for count in (0, 1, 2)
    ),
]
BROKEN = b"\x00\x53\x75\xa0\x05x"


def frame(session: Any, wires: list[bytes | None]) -> Any:
    return session.createDataFrame(
        pa.table({"id": range(len(wires)), "wire": pa.array(wires, pa.binary())})
    )


def rows(df: Any) -> list[dict[str, Any]]:
    return sorted(df.toArrow().to_pylist(), key=lambda row: row["id"])


@pytest.mark.parametrize("profile", ["lossless", "rabbitmq-4.3"])
def test_to_basic_equals_translator(spark_session: Any, profile: ProfileName) -> None:
    made = rows(spark.translate(frame(spark_session, [*WIRES]), "0-9-1", profile))

    for wire, row in zip(WIRES, made, strict=True):
        try:
            expected = translation.to_basic(Message.decode(wire), profile)
        except translation.TranslationError as error:
            refused = ("not-translatable", str(error))
            assert refused == (row["error_code"], row["error_text"])
            continue
        message = expected.message
        header = basic.encode_content_header(message.properties, len(message.body))
        said = message.body, message.exchange, message.routing_key, message.redelivered
        assert (header, *said) == tuple(row[name] for name in BASIC.names)
        assert [(loss.path, loss.action) for loss in expected.losses] == [
            (loss["path"], loss["action"]) for loss in row["losses"]
        ]
        for loss in row["losses"]:
            assert loss["before"] is None or json.loads(loss["before"]) is not None


def test_round_trip_is_lossless(spark_session: Any) -> None:
    there = spark.translate(frame(spark_session, [*WIRES]), "0-9-1")

    back = rows(spark.translate(there.drop("losses", *_ERRORS), "1.0"))

    assert WIRES == [row["wire"] for row in back]
    assert [[]] * len(WIRES) == [[x for x in row["losses"] if not x["recoverable"]] for row in back]


@pytest.mark.parametrize("to", ["0-9-1", "1.0"])
def test_mixed_messages_come_back_as_the_same_bytes(
    spark_session: Any, to: Literal["1.0", "0-9-1"]
) -> None:
    # In short what `python tools/spark_round_trips.py` does with a million.
    trips = pytest.importorskip("spark_round_trips", reason="the tools are not here")
    chosen = random.Random(1)
    table = (
        trips.amqp10_table(chosen, 400)
        if to == "0-9-1"
        else trips.basic_table(trips.basic_messages(chosen, 400))
    )

    found = trips.there_and_back(spark_session.createDataFrame(table), to)

    assert trips.Found(400, {}, 400, {}, 0, ()) == found


_ERRORS = ("error_code", "error_clause", "error_offset", "error_text")


SIGNED = Message(b"x", properties=Properties(user_id=b"alice")).encode()


@pytest.mark.parametrize("user", ["alice", "guest", None])
def test_circumstances_equal_translator_options(spark_session: Any, user: str | None) -> None:
    circumstances = translation.Circumstances(user=user)
    df = frame(spark_session, [SIGNED])

    (row,) = rows(spark.translate(df, "0-9-1", "rabbitmq-4.3", circumstances=circumstances))

    # A broker takes nobody's word for who he is.
    refused = "not-translatable" if user == "guest" else None
    assert (refused, None if refused else b"x") == (row["error_code"], row["payload"])


def test_untranslatable_message_is_a_row_with_reason(spark_session: Any) -> None:
    made = rows(spark.translate(frame(spark_session, [WIRES[0], BROKEN, None]), "0-9-1"))

    assert [None, "truncated", None] == [row["error_code"] for row in made]
    assert made[1]["error_text"].startswith("at byte ")
    assert (None, None) == (made[1]["payload"], made[2]["payload"])


def test_body_of_wrong_size_is_an_error(spark_session: Any) -> None:
    header = basic.encode_content_header(basic.BasicProperties(), 3)
    table = pa.table({"id": [0, 1], "content_header": [header] * 2, "payload": [b"abc", b"ab"]})

    made = rows(spark.translate(spark_session.createDataFrame(table), "1.0", column="made"))

    assert Message(b"abc") == Message.decode(made[0]["made"])
    assert [None, "truncated"] == [row["error_code"] for row in made]


def test_translation_job_runs_on_spark(spark_session: Any, tmp_path: Path) -> None:
    job = Job("translate", to="0-9-1", profile="lossless")

    spark.write(frame(spark_session, [*WIRES, BROKEN]), tmp_path / "out", job)

    good, bad = (pq.ParquetDataset(f).read().to_pylist() for f in output_of(tmp_path / "out"))
    assert {*range(len(WIRES))} == {row["id"] for row in good}
    assert [(len(WIRES), BROKEN, "truncated")] == [
        (r["id"], r["wire"], r["error_code"]) for r in bad
    ]
    assert len(WIRES) + 1 == spark.read_stats(tmp_path / "out").rows


@pytest.mark.parametrize(
    "arguments, text",
    [
        (("amqp11",), "must be '1.0' or '0-9-1'"),
        (("0-9-1", "nobody"), "unknown profile 'nobody'"),
        (("1.0",), "no column 'content_header' in the DataFrame"),
    ],
)
def test_invalid_call_is_an_error(
    spark_session: Any, arguments: tuple[Any, ...], text: str
) -> None:
    with pytest.raises(ValueError, match=text):
        spark.translate(frame(spark_session, [*WIRES]), *arguments)
